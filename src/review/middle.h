/*
 * The part in which two large texts differ, with the lines around it: what is the same before and after it is compared in pieces and not
 * kept. Lines are whole, and there are as many of them on both ends as a hunk has context, so that the hunks of the two middles are those
 * of the two texts, but for their line numbers.
 */
#pragma once

#include <nettle/sha2.h>
#include <stdint.h>

#include "base/buf.h"

#define MIDDLE_FILE_MOST ((uint64_t) 1 << 30) /* larger files are not compared */

struct middle {
    uint64_t at;                 /* where it begins, in both */
    uint64_t lines_before;       /* in both */
    uint64_t was_size, now_size; /* of the files */
    struct buf was, now;         /* the same, or empty: there is no difference */
};

#define MIDDLE_NONE ((struct middle){ .at = 0 })

/* 0, 1 when a file or the middle of one is too large (more than `most` bytes of it), or -errno; -ESTALE when a file becomes shorter meanwhile. */
int middle_find(int was_fd, int now_fd, uint64_t most, struct middle *ret);
void middle_done(struct middle *middle);

/* Hashes, as side_read() does, what is shown: the new middle, with what the old file has before and after it. Somebody who writes to the new
 * file while it is compared has then shown something that it never was, and that hash is no file's. */
int middle_hash(const struct middle *middle, int was_fd, struct sha256_ctx *sha);
