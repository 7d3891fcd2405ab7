/*
 * One side of a comparison: a file or a link, read once beneath a directory descriptor and never through a link.
 *
 * The tree's owner may change the file while it is read. The bytes may then be neither the old file nor the new one, but the
 * text and the hash are of the same bytes. A file that has changed its kind is -ESTALE.
 */
#pragma once

#include <nettle/sha2.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"

#define BLOB_SNIFF_BYTES 8000 /* where git looks for a NUL */

struct blob {
    mode_t mode;         /* 0: nothing */
    uint64_t size_bytes; /* as read */
    struct buf bytes;    /* a link's are its target. Of a file that is too large, the first BLOB_SNIFF_BYTES */
    bool is_too_large;
    struct stat st; /* after reading */
};

#define BLOB_NONE ((struct blob){ .mode = 0 })

/* Reads a file of the kind `mode`; for 0, and for anything but a file or link, it reads nothing. At most `max` bytes are
 * kept; all of them, as many as the file had when it was opened, go to `sha` unless that is NULL. */
int blob_read(int dirfd, const char *path, mode_t mode, uint64_t max, struct sha256_ctx *sha, struct blob *ret);

/* Hashes like blob_read(), for bytes read elsewhere: a whole file or a link's target. */
void blob_hash(mode_t mode, const struct buf *bytes, struct sha256_ctx *sha);

/* The same for a file in parts: `read` fills all of `len` or returns a negative errno. */
typedef int (*blob_read_fn)(uint64_t at, char *bytes, size_t len, void *cookie);
int blob_hash_from(uint64_t size, blob_read_fn read, void *cookie, struct sha256_ctx *sha);

/* Looks for a NUL near the beginning. */
bool blob_is_binary(const struct blob *blob);

bool blob_equals(const struct blob *a, const struct blob *b);

void blob_done(struct blob *blob);
