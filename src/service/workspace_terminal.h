/*
 * A terminal in a sandbox, a workspace or one over a codebase, and one who is attached to it: what the process prints, as it comes, what is
 * typed, the size. The process is one in the background (workspace_run.h): it goes on when this is closed, and anybody may attach again, to be
 * shown the end of what there was.
 *
 * Or three pipes instead of the terminal: a command like those that are waited for, whose input comes while it runs, and whose standard error
 * is apart. Nobody attaches to that one; it is ended by workspace_terminal_kill().
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

/* A command that cannot be started is an error where there is a terminal; with pipes, its end. */
int workspace_terminal_open(struct service *service, const struct caller *caller, const char *id,
                            const struct workspace_command *command, struct workspace_terminal **ret, struct err *err);

/* -ENOTTY, ERR_FAILED_PRECONDITION: it has no terminal, or has ended, or somebody else is attached. */
int workspace_terminal_attach(struct service *service, const struct caller *caller, const char *id, const char *which,
                              struct workspace_terminal **ret, struct err *err);
void workspace_terminal_close(struct workspace_terminal *terminal);
DEFINE_AUTOPTR(workspace_terminal, workspace_terminal_close);

const char *workspace_terminal_name(const struct workspace_terminal *terminal); /* the id of the process */
bool workspace_terminal_is_piped(const struct workspace_terminal *terminal);

/* Readable when there is something to receive. */
int workspace_terminal_fd(const struct workspace_terminal *terminal);
/* Writable when workspace_terminal_feed() can do something; -1: nothing waits for that. */
int workspace_terminal_input_fd(const struct workspace_terminal *terminal);

enum terminal_news_kind { TERMINAL_NOTHING, TERMINAL_OUTPUT, TERMINAL_TAKEN, TERMINAL_ENDED };

struct terminal_news {
    enum terminal_news_kind kind;
    enum ctl_stream stream; /* OUTPUT; a terminal has but one */
    const void *bytes;      /* borrowed until the next call; of an ENDED what is still to be said on standard error, "" */
    size_t len;
    int exit_code; /* ENDED; -1: it ended with the sandbox, and `text` says so */
    bool timed_out, ran_out_of_memory;
    const char *text;
};

/* Waits for nothing. Negative: the sandbox is gone. */
int workspace_terminal_receive(struct workspace_terminal *terminal, struct terminal_news *ret, struct err *err);

#define WORKSPACE_TERMINAL_TYPE_MAX 8192

/* Up to so many bytes; not again before TERMINAL_TAKEN has come, or of a pipe workspace_terminal_feed() has said so. */
int workspace_terminal_type(struct workspace_terminal *terminal, const void *bytes, size_t len, struct err *err);
/* True: all that was typed is in the pipe, or nobody reads it any more. */
bool workspace_terminal_feed(struct workspace_terminal *terminal);
/* There is no more to type; of a terminal nothing can be said that means this. */
void workspace_terminal_end_input(struct workspace_terminal *terminal);
int workspace_terminal_resize(struct workspace_terminal *terminal, uint16_t rows, uint16_t cols, struct err *err);

/* It, with all that it started, has ended when this returns, as far as can be told. One with pipes is killed; one with a terminal is asked to
 * first. */
void workspace_terminal_end(struct workspace_terminal *terminal, uint32_t grace_ms);

/* Whether there is a codebase that what it changed goes into. */
bool workspace_terminal_syncs(const struct workspace_terminal *terminal);
/* It has ended: that is done. A failure is logged; the changes stay in the sandbox. */
void workspace_terminal_sync(struct service *service, const struct caller *caller, const char *id, const char *name);
