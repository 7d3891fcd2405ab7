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

#define BLOB_SNIFF_BYTES 8000 /* as far as git looks for a NUL */

struct blob {
    mode_t mode;         /* 0: nothing there */
    uint64_t size_bytes; /* as it was read */
    struct buf bytes;    /* a link's is its target. Of what is too large, only the first BLOB_SNIFF_BYTES */
    bool is_too_large;
    struct stat st; /* after it was read */
};

#define BLOB_NONE ((struct blob){ .mode = 0 })

/* Reads what `mode` says is there (0, or what is neither a file nor a link: nothing is read). At most `max` bytes are kept; all of them,
 * as many as there were when it was opened, go to `sha` unless that is NULL. */
int blob_read(int dirfd, const char *path, mode_t mode, uint64_t max, struct sha256_ctx *sha, struct blob *ret);

/* What blob_read() gives to `sha`, of bytes that were read elsewhere: all of a file or of a link's target. */
void blob_hash(mode_t mode, const struct buf *bytes, struct sha256_ctx *sha);

/* The same of a file that is given in parts: `read` fills all of `len`, or is a negative errno. */
typedef int (*blob_read_fn)(uint64_t at, char *bytes, size_t len, void *cookie);
int blob_hash_from(uint64_t size, blob_read_fn read, void *cookie, struct sha256_ctx *sha);

/* A NUL near its beginning. */
bool blob_is_binary(const struct blob *blob);

bool blob_equals(const struct blob *a, const struct blob *b);

void blob_done(struct blob *blob);
