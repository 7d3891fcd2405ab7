/*
 * Connects our terminal to a command that runs in a sandbox: passes on input, output, signals and the size of the window until the command has ended.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "wire/ctl_proto.h"

struct attach {
    int ctl_fd;          /* borrowed: the connection to the supervisor */
    int signal_fd;       /* borrowed: from attach_take_signals() */
    bool is_tty;         /* the command gets a terminal, and ours is in raw mode meanwhile */
    bool takes_stdin;    /* pass on our standard input */
    bool shows_refusals; /* print on standard error what the rules refused */
    unsigned timeout_ms;
};

/* Redirects SIGINT, SIGTERM, SIGHUP and SIGQUIT to a descriptor, so that they no longer end us. Signals that were already ignored stay ignored.
 * Call it before the first thread starts. */
int attach_take_signals(int *ret_fd);

/* Prints the refusal if the reply reports one. */
void attach_show_refusal(const struct ctl_reply *reply);

/* Runs the command and reports how it ended. -errno if the sandbox ended first. */
int attach_run(const struct attach *attach, const struct ctl_command *command, struct ctl_finished *ret, struct err *err);
