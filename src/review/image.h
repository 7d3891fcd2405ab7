/*
 * What one version of a path is: nothing, a directory, a file with its bytes, or a link with its target.
 *
 * A file that is too large to be merged has no bytes in memory, but a hash like any other, so two images can always be compared.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

#define IMAGE_HASH_BYTES 32                  /* SHA-256 */
#define IMAGE_BYTES_MAX ((uint64_t) 8 << 20) /* larger files are compared, never merged */

struct image {
    struct stat st;                 /* st_mode 0: nothing there; of bytes from elsewhere only mode and size */
    uint8_t hash[IMAGE_HASH_BYTES]; /* of the bytes or of the link's target */
    bool has_bytes;
    struct buf bytes;
};

#define IMAGE_NONE ((struct image){ .has_bytes = false })

/* What is at the path now; nothing there is no error. FIFOs and sockets have no content. */
int image_read(int dirfd, const char *path, struct image *ret);

/* A regular file with these bytes. */
void image_of_bytes(const void *bytes, size_t len, mode_t mode, struct image *ret);
void image_done(struct image *image);

/* Kind and content; modes do not count. */
bool image_is_same(const struct image *a, const struct image *b);

/* A NUL where git looks for one, or bytes that were too many to look. */
bool image_is_binary(const struct image *image);

/* Of all that can be read. Large files have a hash of their own kind, which holes cost nothing; up to DIARY_HASH_MOST it is that of a diary. */
int image_hash_fd(int fd, uint8_t out[IMAGE_HASH_BYTES]);
