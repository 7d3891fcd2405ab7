/*
 * A growable run of bytes. Zero-initialised is empty (BUF_EMPTY); buf_done() releases it.
 * There is always a NUL after the last byte once anything was added, so `data` can be printed when the bytes are text.
 */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"

struct buf {
    char *data; /* owned; NULL while empty */
    size_t len;
    size_t cap;
};

#define BUF_EMPTY ((struct buf){ 0 })

void buf_done(struct buf *b);
void buf_clear(struct buf *b);             /* empties, keeps the memory */
void buf_room(struct buf *b, size_t more); /* space for `more` bytes and the NUL */
void buf_add(struct buf *b, const void *bytes, size_t len);
void buf_add_str(struct buf *b, const char *s);
void buf_add_char(struct buf *b, char c);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Adds text that came from a stranger, safe for a terminal and for a one-line message: control characters, invalid UTF-8,
 * bidi overrides and the backslash itself become \xNN, \uNNNN or a C escape. */
void buf_add_escaped(struct buf *b, const void *bytes, size_t len);

/* Enough of a stranger's text to recognise it by, escaped likewise: cut between characters after 64 bytes, with
 * "... (N bytes)" behind it. */
void buf_add_excerpt(struct buf *b, const void *bytes, size_t len);

/* Gives the bytes away as a NUL-ended string and leaves the buffer empty. Never NULL. */
char *buf_dup_take(struct buf *b);
