/*
 * A terminal in a sandbox of either kind, and one client attached to it: output as it arrives, input, the size. The process is a background
 * process (sandbox_run.h): it goes on when this is closed, and another client may attach and gets the end of the earlier output.
 *
 * Or three pipes instead of the terminal: a command as for sandbox_exec(), but with input while it runs and a separate standard error. No
 * client can attach to it later; sandbox_terminal_end() ends it.
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

/* With a terminal, a command that cannot be started is an error. With pipes it is reported as the command's end. */
int sandbox_terminal_open(struct service *service, const struct caller *caller, const char *id,
                          const struct sandbox_command *command, struct sandbox_terminal **ret, struct err *err);

/* -ENOTTY, ERR_FAILED_PRECONDITION: it has no terminal, has ended, or has another client attached. */
int sandbox_terminal_attach(struct service *service, const struct caller *caller, const char *id, const char *which,
                            struct sandbox_terminal **ret, struct err *err);
void sandbox_terminal_close(struct sandbox_terminal *terminal);
DEFINE_AUTOPTR(sandbox_terminal, sandbox_terminal_close);

const char *sandbox_terminal_name(const struct sandbox_terminal *terminal); /* the id of the process */
bool sandbox_terminal_is_piped(const struct sandbox_terminal *terminal);

/* Readable when sandbox_terminal_receive() has something to return. */
int sandbox_terminal_fd(const struct sandbox_terminal *terminal);
/* Writable when sandbox_terminal_feed() can write; -1: there is nothing to write. */
int sandbox_terminal_input_fd(const struct sandbox_terminal *terminal);

enum terminal_event_kind { TERMINAL_NOTHING, TERMINAL_OUTPUT, TERMINAL_TAKEN, TERMINAL_ENDED };

struct terminal_event {
    enum terminal_event_kind kind;
    enum ctl_stream stream; /* OUTPUT; a terminal has only one */
    const void *bytes;      /* borrowed until the next call; of an ENDED a last message for standard error, or "" */
    size_t len;
    int exit_code; /* ENDED; -1: it ended with the sandbox, and `text` explains that */
    bool timed_out, ran_out_of_memory;
    const char *text;
};

/* Does not wait. Negative: the sandbox has ended. */
int sandbox_terminal_receive(struct sandbox_terminal *terminal, struct terminal_event *ret, struct err *err);

#define WORKSPACE_TERMINAL_TYPE_MAX 8192

/* Takes up to WORKSPACE_TERMINAL_TYPE_MAX bytes. Do not call it again before TERMINAL_TAKEN or, with a pipe, before sandbox_terminal_feed() has
 * returned true. */
int sandbox_terminal_type(struct sandbox_terminal *terminal, const void *bytes, size_t len, struct err *err);
/* Returns true if all input is in the pipe, or the command has closed its end. */
bool sandbox_terminal_feed(struct sandbox_terminal *terminal);
/* Ends the input of a pipe. Does nothing for a terminal. */
void sandbox_terminal_end_input(struct sandbox_terminal *terminal);
int sandbox_terminal_resize(struct sandbox_terminal *terminal, uint16_t rows, uint16_t cols, struct err *err);

/* Ends the process and all its descendants, and waits for that as long as it can. Kills a command with pipes; asks one with a terminal to
 * end first. */
void sandbox_terminal_end(struct sandbox_terminal *terminal, uint32_t grace_ms);

/* Returns true if its changes are to be synced to a codebase. */
bool sandbox_terminal_syncs(const struct sandbox_terminal *terminal);
/* Syncs the changes after its end. A failure is logged; the changes stay in the sandbox. */
void sandbox_terminal_sync(struct service *service, const struct caller *caller, const char *id, const char *name);
