/*
 * Our end of an interactive command in a sandbox: passes on input, output and the size of the window until the command has ended, the
 * connection is lost, a signal ends us or the user detaches. The protocol is in docs/workspace-run.md, Terminals.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/api_verb.h"
#include "cli/detach_keys.h"
#include "cli/setting_options.h"

struct console {
    const char *sandbox;          /* its id */
    const char *process;          /* attach to this one; NULL: run `words` */
    char *const *words;           /* ended by NULL; a single one is a line for the shell */
    const char *workdir;          /* NULL: the sandbox's root */
    int64_t timeout_ns;           /* 0: the server's default; without one for a terminal */
    const struct entry_list *env; /* NULL: none */
    const json_t *limits;         /* further fields of the request; NULL: none */
    const char *detach_keys;      /* NULL: the usual ones */
    bool is_tty;                  /* a terminal for the command, ours in raw mode meanwhile; otherwise pipes */
    bool takes_stdin;             /* ours is passed on */
};

/* Returns the exit code of the command, EXIT_TIMED_OUT after a timeout, 0 after detaching, or -errno and `err`. Our own terminal is restored
 * before this returns. */
int console_run(struct api_call *call, const struct console *console, struct err *err);
