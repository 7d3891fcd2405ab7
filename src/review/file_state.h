/*
 * One version of a path: nothing, a directory, a file with its bytes, or a link with its target.
 *
 * A file that is too large to be merged has no bytes in memory, but it has a hash, so two states can always be compared.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

#define FILE_STATE_HASH_BYTES 32                  /* SHA-256 */
#define FILE_STATE_BYTES_MAX ((uint64_t) 8 << 20) /* larger files are compared, never merged */

struct file_state {
    struct stat st;                      /* st_mode 0: nothing; for bytes from elsewhere only mode and size */
    uint8_t hash[FILE_STATE_HASH_BYTES]; /* of the bytes or of the link's target */
    bool has_bytes;
    struct buf bytes;
};

#define FILE_STATE_NONE ((struct file_state){ .has_bytes = false })

/* Reads the current state of the path; a missing file is not an error. FIFOs and sockets have no content. */
int file_state_read(int dirfd, const char *path, struct file_state *ret);

/* A regular file with these bytes. */
void file_state_of_bytes(const void *bytes, size_t len, mode_t mode, struct file_state *ret);
void file_state_done(struct file_state *state);

/* Compares kind and content; ignores modes. */
bool file_state_equals(const struct file_state *a, const struct file_state *b);

/* There is a NUL where git looks for one, or the file is too large to look. */
bool file_state_is_binary(const struct file_state *state);

/* Hashes any file that can be read. Large files have another kind of hash, for which holes cost nothing; up to
 * CHANGE_LOG_INDEX_HASH_MAX it is the hash in a change log. */
int file_state_hash_fd(int fd, uint8_t out[FILE_STATE_HASH_BYTES]);
