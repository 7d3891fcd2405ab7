/*
 * Runs one command through a sandbox's supervisor: passes input, receives output as it arrives, and returns how the command ended.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/ctl_proto.h"

/* All borrowed for the call. Zero and NULL: not given, or the default. */
struct exec_request {
    const char *name;        /* of the exec */
    const char *session;     /* the session to run it in; NULL: no session */
    const char *const *argv; /* in a session exactly one item: the command */
    const char *cwd;
    const char *const *envp;
    const void *input; /* the command's standard input */
    size_t input_len;
    uint32_t timeout_ms;
    uint64_t output_limit; /* bytes per stream */
    struct ctl_limits limits;
};

struct exec_result {
    uint32_t pid; /* in the sandbox's pid namespace; 0: unknown */
    struct ctl_finished finished;
};

/* Receives output. A negative errno means that the caller wants no more: exec_run() kills the command. */
typedef int (*exec_output_fn)(enum ctl_stream stream, const void *bytes, size_t len, void *cookie);

/* Called when the caller no longer waits. Returns true to let the command go on. */
typedef bool (*exec_spare_fn)(void *cookie);

/* Who receives the output. */
struct exec_sink {
    exec_output_fn fn;
    void *cookie;
    int cancel_fd;       /* readable when the caller no longer waits; -1: it always waits */
    exec_spare_fn spare; /* NULL: kill the command then */
    void *spare_cookie;
};

/*
 * Runs the command to its end over the connection `ctl_fd`, which must be idle and is idle again after 0.
 *
 * Returns 0 when the command ended by itself, was killed by its timeout, or could not be started (see the result). Returns -ECANCELED when
 * the caller no longer waits: either the command was killed, and the result describes its end; or it was spared and goes on. A connection
 * that breaks because the server is killed leaves the command running too. After any failure except -ECANCELED with a killed command, the
 * connection must be closed.
 */
int exec_run(int ctl_fd, const struct exec_request *request, const struct exec_sink *sink, struct exec_result *ret,
             struct err *err);

/* Returns what a shell would show: the exit code, or 128 + n for signal n. */
int exec_exit_code(const struct ctl_finished *finished);
