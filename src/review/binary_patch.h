/*
 * Git's binary patches: deflated bytes in lines of base 85.
 *
 * libgit2 deflates contents in memory, as the whole or as the difference to the other side, whichever is shorter. A larger
 * file goes into the stream in deflate's stored blocks, uncompressed: that needs memory for one piece only, and no time for a
 * compressor.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define BINARY_PATCH_OID_MAX 41

/* Git's object id for a file with these bytes, in hex. */
void binary_patch_oid(const void *bytes, size_t len, char out[BINARY_PATCH_OID_MAX]);

/* Adds "literal 12\n..." in both directions, without the line "GIT binary patch". */
int binary_patch_add(struct buf *out, const void *was, size_t was_len, const void *now, size_t now_len, struct err *err);

/* One direction, in pieces: begin, feeds with exactly `size_bytes` in all, end. Finished lines are added to `out`, which
 * the caller may empty between calls. */
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
