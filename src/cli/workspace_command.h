/* Commands in a workspace: one to wait for, or one in the background with a log. */
#pragma once

#include "base/buf.h"
#include "cli/api_verb.h"
#include "cli/setting_options.h"

struct workspace_command {
    char *const *words;         /* ended by NULL; a single one is a line for the shell */
    const char *workdir, *name; /* NULL: none */
    int64_t timeout_ns;         /* 0: what the server has */
    const struct buf *input;
    const struct entry_list *env;
    json_t *more; /* further fields of the request; borrowed; NULL: none */
    bool is_detached;
    bool is_tty;      /* a terminal for it, and ours for that */
    bool takes_stdin; /* ours, as it comes; `input` is for those who wait for the whole answer */
    const char *detach_keys;
};

/* Its output as it comes, and its exit code; in the background its id; with --json the whole answer. Of a sandbox over a codebase, only what is
 * neither in the background nor --json. */
int command_in_workspace(struct api_call *call, const char *id, const struct workspace_command *command, struct err *err);

/* What a process in the background printed: the last `tail` lines, or all for -1; `follows` goes on to its end. `pid` NULL: a list of logs. */
int logs_of_workspace(struct api_call *call, const char *id, const char *pid, int64_t tail, bool follows, struct err *err);
