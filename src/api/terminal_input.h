/*
 * What somebody types into a terminal, or into the pipe in its place, on its way there. A terminal takes one message at a time, a pipe as much
 * as fits: what neither takes yet is kept here, and whoever feeds this should read no more from its client until it is empty.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "service/sandbox_terminal.h"

struct terminal_input {
    struct sandbox_terminal *link; /* borrowed */
    bool is_piped;
    bool awaits_taking; /* what was typed last is not in the terminal yet */
    bool ends;          /* after what is to be typed */
    struct buf typed;   /* owned: what is to be typed */
};

/* Nothing waits here: more may be read from the client. */
bool terminal_input_is_empty(const struct terminal_input *input);

int terminal_input_add(struct terminal_input *input, const void *bytes, size_t len, struct err *err);
/* With pipes: nothing more is added. */
int terminal_input_end(struct terminal_input *input, struct err *err);

/* TERMINAL_TAKEN has come. */
int terminal_input_taken(struct terminal_input *input, struct err *err);
/* sandbox_terminal_input_fd() is writable. */
int terminal_input_feed(struct terminal_input *input, struct err *err);
