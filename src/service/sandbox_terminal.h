/*
 * A terminal in a sandbox, a workspace or one over a codebase, and one who is attached to it: what the process prints, as it comes, what is
 * typed, the size. The process is one in the background (sandbox_run.h): it goes on when this is closed, and anybody may attach again, to be
 * shown the end of what there was.
 *
 * Or three pipes instead of the terminal: a command like those that are waited for, whose input comes while it runs, and whose standard error
 * is apart. Nobody attaches to that one; it is ended by sandbox_terminal_kill().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "service/caller.h"
#include "service/sandbox_run.h"

struct sandbox_terminal;

/* A command that cannot be started is an error where there is a terminal; with pipes, its end. */
int sandbox_terminal_open(struct service *service, const struct caller *caller, const char *id,
                          const struct sandbox_command *command, struct sandbox_terminal **ret, struct err *err);

/* -ENOTTY, ERR_FAILED_PRECONDITION: it has no terminal, or has ended, or somebody else is attached. */
int sandbox_terminal_attach(struct service *service, const struct caller *caller, const char *id, const char *which,
                            struct sandbox_terminal **ret, struct err *err);
void sandbox_terminal_close(struct sandbox_terminal *terminal);
DEFINE_AUTOPTR(sandbox_terminal, sandbox_terminal_close);

const char *sandbox_terminal_name(const struct sandbox_terminal *terminal); /* the id of the process */
bool sandbox_terminal_is_piped(const struct sandbox_terminal *terminal);

/* Readable when there is something to receive. */
int sandbox_terminal_fd(const struct sandbox_terminal *terminal);
/* Writable when sandbox_terminal_feed() can do something; -1: nothing waits for that. */
int sandbox_terminal_input_fd(const struct sandbox_terminal *terminal);

enum terminal_event_kind { TERMINAL_NOTHING, TERMINAL_OUTPUT, TERMINAL_TAKEN, TERMINAL_ENDED };

struct terminal_event {
    enum terminal_event_kind kind;
    enum ctl_stream stream; /* OUTPUT; a terminal has but one */
    const void *bytes;      /* borrowed until the next call; of an ENDED what is still to be said on standard error, "" */
    size_t len;
    int exit_code; /* ENDED; -1: it ended with the sandbox, and `text` says so */
    bool timed_out, ran_out_of_memory;
    const char *text;
};

/* Waits for nothing. Negative: the sandbox is gone. */
int sandbox_terminal_receive(struct sandbox_terminal *terminal, struct terminal_event *ret, struct err *err);

#define WORKSPACE_TERMINAL_TYPE_MAX 8192

/* Up to so many bytes; not again before TERMINAL_TAKEN has come, or of a pipe sandbox_terminal_feed() has said so. */
int sandbox_terminal_type(struct sandbox_terminal *terminal, const void *bytes, size_t len, struct err *err);
/* True: all that was typed is in the pipe, or nobody reads it any more. */
bool sandbox_terminal_feed(struct sandbox_terminal *terminal);
/* There is no more to type; of a terminal nothing can be said that means this. */
void sandbox_terminal_end_input(struct sandbox_terminal *terminal);
int sandbox_terminal_resize(struct sandbox_terminal *terminal, uint16_t rows, uint16_t cols, struct err *err);

/* It, with all that it started, has ended when this returns, as far as can be told. One with pipes is killed; one with a terminal is asked to
 * first. */
void sandbox_terminal_end(struct sandbox_terminal *terminal, uint32_t grace_ms);

/* Whether there is a codebase that what it changed goes into. */
bool sandbox_terminal_syncs(const struct sandbox_terminal *terminal);
/* It has ended: that is done. A failure is logged; the changes stay in the sandbox. */
void sandbox_terminal_sync(struct service *service, const struct caller *caller, const char *id, const char *name);
