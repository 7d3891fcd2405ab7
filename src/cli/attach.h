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
    int signal_fd;       /* borrowed: of attach_take_signals() */
    bool is_tty;         /* a terminal for the command, ours in raw mode meanwhile */
    bool takes_stdin;    /* pass on our standard input */
    bool shows_refusals; /* tell on standard error what the rules refused */
    unsigned timeout_ms;
};

/* From here on SIGINT, SIGTERM, SIGHUP and SIGQUIT come by this descriptor and do not end us, except those that we were started
 * to ignore: they stay ignored. Before the first thread. */
int attach_take_signals(int *ret_fd);

/* Prints what the rules refused, if the reply tells that. */
void attach_show_refusal(const struct ctl_reply *reply);

/* Runs it and says how it ended. -errno when the sandbox went away before. */
int attach_run(const struct attach *attach, const struct ctl_command *command, struct ctl_finished *ret, struct err *err);
