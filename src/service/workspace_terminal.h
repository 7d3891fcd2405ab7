/*
 * A terminal in a workspace, and one who is attached to it: what the process prints, as it comes, what is typed, the size. The process is one
 * in the background (workspace_run.h): it goes on when this is closed, and anybody may attach again, to be shown the end of what there was.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "service/caller.h"
#include "service/workspace_run.h"

struct workspace_terminal;

int workspace_terminal_open(struct service *service, const struct caller *caller, const char *id,
                            const struct workspace_command *command, struct workspace_terminal **ret, struct err *err);

/* -ENOTTY, ERR_FAILED_PRECONDITION: it has no terminal, or has ended, or somebody else is attached. */
int workspace_terminal_attach(struct service *service, const struct caller *caller, const char *id, const char *which,
                              struct workspace_terminal **ret, struct err *err);
void workspace_terminal_close(struct workspace_terminal *terminal);
DEFINE_AUTOPTR(workspace_terminal, workspace_terminal_close);

const char *workspace_terminal_name(const struct workspace_terminal *terminal); /* the id of the process */

/* Readable when there is something to receive. */
int workspace_terminal_fd(const struct workspace_terminal *terminal);

enum terminal_news_kind { TERMINAL_NOTHING, TERMINAL_OUTPUT, TERMINAL_TAKEN, TERMINAL_ENDED };

struct terminal_news {
    enum terminal_news_kind kind;
    const void *bytes; /* OUTPUT: borrowed until the next call */
    size_t len;
    int exit_code; /* ENDED; -1: it ended with the sandbox, and `text` says so */
    const char *text;
};

/* Waits for nothing. Negative: the sandbox is gone. */
int workspace_terminal_receive(struct workspace_terminal *terminal, struct terminal_news *ret, struct err *err);

#define WORKSPACE_TERMINAL_TYPE_MAX 8192

/* Up to so many bytes; not again before TERMINAL_TAKEN has come. */
int workspace_terminal_type(struct workspace_terminal *terminal, const void *bytes, size_t len, struct err *err);
int workspace_terminal_resize(struct workspace_terminal *terminal, uint16_t rows, uint16_t cols, struct err *err);
