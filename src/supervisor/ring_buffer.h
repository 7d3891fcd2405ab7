/*
 * Output that nobody has taken yet: a bounded queue of bytes. When it is full the oldest go, and are counted, because whoever
 * comes back wants the end of it most. Empty it owns no memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define RING_BUFFER_BYTES_MAX (1u << 20)

struct ring_buffer {
    char *bytes; /* owned */
    size_t start, len, cap;
    uint64_t lost; /* dropped before what is here, and not told yet */
};

void ring_buffer_done(struct ring_buffer *ring);
void ring_buffer_add(struct ring_buffer *ring, const void *bytes, size_t len);

/* What is there, and how much of it; then take some off the front. */
const char *ring_buffer_peek(const struct ring_buffer *ring, size_t *ret_len);
void ring_buffer_consume(struct ring_buffer *ring, size_t len);
