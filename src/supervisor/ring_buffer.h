/*
 * A bounded queue for output that no client has read yet. A full queue drops and counts the oldest bytes, because a returning
 * client needs the end of the output most. An empty queue owns no memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define RING_BUFFER_BYTES_MAX (1u << 20)

struct ring_buffer {
    char *bytes; /* owned */
    size_t start, len, cap;
    uint64_t lost; /* bytes dropped before the current ones, not reported yet */
};

void ring_buffer_done(struct ring_buffer *ring);
void ring_buffer_add(struct ring_buffer *ring, const void *bytes, size_t len);

/* Lends the content and its length; consume() removes bytes from the front. */
const char *ring_buffer_peek(const struct ring_buffer *ring, size_t *ret_len);
void ring_buffer_consume(struct ring_buffer *ring, size_t len);
