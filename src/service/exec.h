/*
 * One command, asked for at a sandbox's supervisor: what goes in, what comes out as it comes, and how it ended.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/ctl_proto.h"

/* All borrowed for the call. Zero and NULL: none, or the default. */
struct exec_request {
    const char *name;        /* of the exec */
    const char *session;     /* NULL: a command of its own; otherwise in this session */
    const char *const *argv; /* in a session exactly one: the command */
    const char *cwd;
    const char *const *envp;
    const void *input; /* its standard input */
    size_t input_len;
    uint32_t timeout_ms;
    uint64_t output_limit; /* bytes of each stream */
    struct ctl_limits limits;
};

struct exec_result {
    uint32_t pid; /* inside; 0: not known */
    struct ctl_finished finished;
};

/* Takes output. A negative errno says that nobody wants more: the command is killed. */
typedef int (*exec_output_fn)(enum ctl_stream stream, const void *bytes, size_t len, void *cookie);

/* Whether those who lose interest lose the command as well; asked when they do. */
typedef bool (*exec_spare_fn)(void *cookie);

/* Where output goes, and who wants it. */
struct exec_sink {
    exec_output_fn fn;
    void *cookie;
    int cancel_fd;       /* readable when nobody waits any more; -1: they always do */
    exec_spare_fn spare; /* NULL: such a command is killed */
    void *spare_cookie;
};

/*
 * Runs it to its end over the connection `ctl_fd`, which does nothing else meanwhile and is as before after 0. 0 when it ended by itself,
 * was killed for its time, or could not be started (see the result). -ECANCELED when nobody wanted it any more: it was killed, and the
 * result says how it ended; or it was spared, and goes on. A connection that breaks, because we are killed, leaves it running too.
 * After every failure but -ECANCELED of one that was killed the connection is of no more use.
 */
int exec_run(int ctl_fd, const struct exec_request *request, const struct exec_sink *sink, struct exec_result *ret,
             struct err *err);

/* What a shell would show: the exit code, or 128 + n. */
int exec_exit_code(const struct ctl_finished *finished);
