/*
 * Input on its way from a client to a terminal, or to the pipe in its place. A terminal accepts one message at a time and a pipe as much as fits;
 * this keeps the rest. The owner should not read more from its client until this is empty.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "service/sandbox_terminal.h"

struct terminal_input {
    struct sandbox_terminal *link; /* borrowed */
    bool is_piped;
    bool awaits_taking; /* the last message has not been accepted yet */
    bool ends;          /* the input ends behind `typed` */
    struct buf typed;   /* owned: input that waits */
};

/* Whether the owner may read more from the client. */
bool terminal_input_is_empty(const struct terminal_input *input);

int terminal_input_add(struct terminal_input *input, const void *bytes, size_t len, struct err *err);
/* With pipes: no more input will be added. */
int terminal_input_end(struct terminal_input *input, struct err *err);

/* To be called after TERMINAL_TAKEN. */
int terminal_input_taken(struct terminal_input *input, struct err *err);
/* To be called when sandbox_terminal_input_fd() is writable. */
int terminal_input_feed(struct terminal_input *input, struct err *err);
