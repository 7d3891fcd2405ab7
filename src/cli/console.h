/*
 * Our end of a command in a sandbox that is reached by the API (docs/workspace-run.md, Terminals): passes on what is typed and printed, and the
 * size of the window, until the command has ended, the connection is lost, somebody wants us to end or the user leaves.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "cli/api_verb.h"
#include "cli/detach_keys.h"

struct console {
    const char *sandbox; /* its id, of either kind */
    const char *process; /* attach to this one; NULL: begin a new one */
    json_t *first;       /* borrowed: what to run, as POST /exec takes it; what a console adds is added */
    bool is_tty;         /* a terminal for the command, ours in raw mode meanwhile; otherwise pipes */
    bool takes_stdin;    /* ours is passed on */
    struct detach_keys keys;
};

/* The exit code of the command, EXIT_TIMED_OUT when its time was up, 0 when it was left running; or -errno and `err`. Our own terminal is as it
 * was when this returns. */
int console_run(struct api_call *call, struct console *console, struct err *err);
