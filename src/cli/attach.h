/*
 * The terminal's end of a command that runs in a sandbox: passes on what is typed and what is printed, signals, the size of the
 * window, until the command has ended.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "wire/ctl_proto.h"

struct attach {
    int ctl_fd;          /* borrowed: the control connection */
    bool is_tty;         /* a terminal for the command, ours in raw mode meanwhile */
    bool takes_stdin;    /* pass on our standard input */
    bool shows_refusals; /* tell on standard error what the rules refused */
    unsigned timeout_ms;
};

/* Runs it and says how it ended. -errno when the sandbox went away before. */
int attach_run(const struct attach *attach, const struct ctl_command *command, struct ctl_finished *ret, struct err *err);
