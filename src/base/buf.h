/*
 * A growable array of bytes. BUF_EMPTY (all zero) is an empty one; buf_done() frees it.
 *
 * After the first addition a NUL follows the last byte, so `data` can be printed if the bytes are text.
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
void buf_room(struct buf *b, size_t more); /* reserves space for `more` bytes and the NUL */
void buf_add(struct buf *b, const void *bytes, size_t len);
void buf_add_str(struct buf *b, const char *s);
void buf_add_char(struct buf *b, char c);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Adds untrusted text in a form that is safe on a terminal and in a one-line message: control characters, invalid UTF-8, bidi
 * overrides and the backslash become \xNN, \uNNNN or a C escape. */
void buf_add_escaped(struct buf *b, const void *bytes, size_t len);

/* Adds the beginning of untrusted text, escaped in the same way: cut between characters after 64 bytes, followed by "... (N
 * bytes)". */
void buf_add_excerpt(struct buf *b, const void *bytes, size_t len);

/* Returns the bytes as a NUL-terminated string, which the caller frees, and leaves the buffer empty. Never NULL. */
char *buf_dup_take(struct buf *b);
