/*
 * Git's binary patches: deflated bytes in lines of base 85.
 *
 * What is in memory is deflated by libgit2, as the whole or as the difference to the other side, whichever is shorter. What is too large for that
 * goes into the stream as it is, in deflate's stored blocks: no more memory than a piece of it, and no waiting for a compressor.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define BINARY_PATCH_OID_MAX 41

/* The id that git has for a file with these bytes, in hex. */
void binary_patch_oid(const void *bytes, size_t len, char out[BINARY_PATCH_OID_MAX]);

/* "literal 12\n..." forth and back, without the line "GIT binary patch". */
int binary_patch_add(struct buf *out, const void *was, size_t was_len, const void *now, size_t now_len, struct err *err);

/* One direction, in pieces: begin, as many feeds as it takes for exactly `size_bytes`, end. What is ready is added to `out`, which the
 * caller may empty in between. */
struct binary_patch_stream {
    struct buf *out;  /* borrowed */
    uint64_t left;    /* bytes to come */
    uint32_t a, b;    /* Adler-32 */
    uint8_t line[52]; /* not yet written */
    size_t line_len;
};

void binary_patch_begin(struct binary_patch_stream *stream, struct buf *out, uint64_t size_bytes);
void binary_patch_feed(struct binary_patch_stream *stream, const uint8_t *bytes, size_t len);
void binary_patch_end(struct binary_patch_stream *stream);
