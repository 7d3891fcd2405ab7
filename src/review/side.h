/*
 * One side of a comparison: a file or a link as it was found, read once beneath a directory descriptor and never through a link.
 *
 * Whoever owns the tree may change it while it is read. What was read is then perhaps neither the old file nor the new one, but it
 * is what all that follows (the text, the hash) is about. Something that is no longer of its kind is -ESTALE.
 */
#pragma once

#include <nettle/sha2.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"

#define SIDE_LOOK 8000 /* as far as git looks for a NUL */

struct side {
    mode_t mode;         /* 0: nothing there */
    uint64_t size_bytes; /* as it was read */
    struct buf bytes;    /* a link's is its target. Of what is too large, only the first SIDE_LOOK */
    bool is_too_large;
    struct stat st; /* after it was read */
};

#define SIDE_NONE ((struct side){ .mode = 0 })

/* Reads what `mode` says is there (0, or what is neither a file nor a link: nothing is read). At most `max` bytes are kept; all of them,
 * as many as there were when it was opened, go to `sha` unless that is NULL. */
int side_read(int dirfd, const char *path, mode_t mode, uint64_t max, struct sha256_ctx *sha, struct side *ret);

/* What side_read() gives to `sha`, of bytes that were read elsewhere: all of a file or of a link's target. */
void side_hash(mode_t mode, const struct buf *bytes, struct sha256_ctx *sha);

/* The same of a file that is given in parts: `read` fills all of `len`, or is a negative errno. */
typedef int (*side_read_fn)(uint64_t at, char *bytes, size_t len, void *cookie);
int side_hash_from(uint64_t size, side_read_fn read, void *cookie, struct sha256_ctx *sha);

/* A NUL near its beginning. */
bool side_is_binary(const struct side *side);

bool side_equals(const struct side *a, const struct side *b);

void side_done(struct side *side);
