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
    const char *session;     /* NULL: a command of its own; otherwise in this session */
    const char *const *argv; /* in a session exactly one: the command */
    const char *cwd;
    const char *const *envp;
    const void *input; /* its standard input */
    size_t input_len;
    uint32_t timeout_ms;
    uint64_t output_limit; /* bytes of each stream */
};

struct exec_result {
    char name[CTL_NAME_MAX]; /* of the exec; "": it was never started */
    struct ctl_finished finished;
};

/* Takes output. A negative errno says that nobody wants more: the command is killed. */
typedef int (*exec_output_fn)(enum ctl_stream stream, const void *bytes, size_t len, void *cookie);

/*
 * Runs it to its end over the connection `ctl_fd`, which does nothing else meanwhile. 0 when it ended by itself, was killed for its
 * time, or could not be started (see the result). -ECANCELED when `cancel_fd` (or -1) became readable or `fn` had enough: the command
 * is killed, and the connection is of no more use; likewise after every other failure. The connection is as before after 0.
 */
int exec_run(int ctl_fd, const struct exec_request *request, int cancel_fd, exec_output_fn fn, void *cookie,
             struct exec_result *ret, struct err *err);

/* What a shell would show: the exit code, or 128 + n. */
int exec_exit_code(const struct ctl_finished *finished);
