/*
 * Connects our terminal to an interactive command in a sandbox: passes on input, output and the size of the window until the command has ended, the
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
    const char *sandbox;          /* id of the sandbox */
    const char *process;          /* process to attach to; NULL: run `words` */
    char *const *words;           /* ended by NULL; a single word is a line for the shell */
    const char *workdir;          /* NULL: the sandbox's root */
    int64_t timeout_ns;           /* 0: the server's default; a terminal has no default */
    const struct entry_list *env; /* NULL: none */
    const json_t *limits;         /* further fields of the request, such as limits; NULL: none */
    const char *detach_keys;      /* NULL: DETACH_KEYS_DEFAULT */
    bool is_tty;                  /* the command gets a terminal, and ours is in raw mode meanwhile; otherwise it gets pipes */
    bool takes_stdin;             /* pass on our standard input */
};

/* Returns the exit code of the command, EXIT_TIMED_OUT after a timeout, 0 after detaching, or -errno and `err`. Restores our own terminal before
 * it returns. */
int console_run(struct api_call *call, const struct console *console, struct err *err);
