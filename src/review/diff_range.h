/*
 * The part in which two large texts differ, with the lines around it: what is the same before and after it is compared in pieces and not
 * kept. Lines are whole, and there are as many of them on both ends as a hunk has context, so that the hunks of the two middles are those
 * of the two texts, but for their line numbers.
 */
#pragma once

#include <nettle/sha2.h>
#include <stdint.h>

#include "base/buf.h"

#define DIFF_RANGE_FILE_MAX ((uint64_t) 1 << 30) /* larger files are not compared */

struct diff_range {
    uint64_t at;                 /* where it begins, in both */
    uint64_t lines_before;       /* in both */
    uint64_t was_size, now_size; /* of the files */
    struct buf was, now;         /* the same, or empty: there is no difference */
};

#define DIFF_RANGE_NONE ((struct diff_range){ .at = 0 })

/* 0, 1 when a file or the middle of one is too large (more than `most` bytes of it), or -errno; -ESTALE when a file becomes shorter meanwhile. */
int diff_range_find(int was_fd, int now_fd, uint64_t most, struct diff_range *ret);
void diff_range_done(struct diff_range *range);

/* Hashes, as blob_read() does, what is shown: the new middle, with what the old file has before and after it. Somebody who writes to the new
 * file while it is compared has then shown something that it never was, and that hash is no file's. */
int diff_range_hash(const struct diff_range *range, int was_fd, struct sha256_ctx *sha);
