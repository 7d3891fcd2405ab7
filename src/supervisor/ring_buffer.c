#include "supervisor/ring_buffer.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void ring_buffer_done(struct ring_buffer *ring)
{
    free(ring->bytes);
    *ring = (struct ring_buffer){ 0 };
}

static void make_room(struct ring_buffer *ring, size_t more)
{
    if (ring->start + ring->len + more <= ring->cap)
        return;
    if (ring->start > 0) {
        memmove(ring->bytes, ring->bytes + ring->start, ring->len);
        ring->start = 0;
    }
    if (ring->len + more <= ring->cap)
        return;
    /* Twice the size in use, so that each byte is moved about once. */
    ring->cap = (ring->len + more) * 2;
    ring->bytes = xgrow(ring->bytes, ring->cap, 1);
}

static void ring_buffer_drop_oldest(struct ring_buffer *ring, size_t len)
{
    ring->start += len;
    ring->len -= len;
    ring->lost += len;
}

void ring_buffer_add(struct ring_buffer *ring, const void *bytes, size_t len)
{
    if (len > RING_BUFFER_BYTES_MAX) {
        ring_buffer_drop_oldest(ring, ring->len);
        ring->lost += len - RING_BUFFER_BYTES_MAX;
        bytes = (const char *) bytes + (len - RING_BUFFER_BYTES_MAX);
        len = RING_BUFFER_BYTES_MAX;
    }
    if (ring->len + len > RING_BUFFER_BYTES_MAX)
        ring_buffer_drop_oldest(ring, ring->len + len - RING_BUFFER_BYTES_MAX);
    make_room(ring, len);
    memcpy(ring->bytes + ring->start + ring->len, bytes, len);
    ring->len += len;
}

const char *ring_buffer_peek(const struct ring_buffer *ring, size_t *ret_len)
{
    *ret_len = ring->len;
    return ring->len ? ring->bytes + ring->start : "";
}

void ring_buffer_consume(struct ring_buffer *ring, size_t len)
{
    ring->start += len;
    ring->len -= len;
    if (ring->len == 0) {
        uint64_t lost = ring->lost;
        ring_buffer_done(ring);
        ring->lost = lost;
    }
}
