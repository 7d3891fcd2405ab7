/*
 * Finds the range in which two large texts differ, with some lines around it: the common text before and after it is compared
 * in pieces and not kept. The range has whole lines, and as many common ones at both ends as a hunk has context, so that the
 * hunks of the two ranges are those of the two texts, except for their line numbers.
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
    struct buf was, now;         /* equal or empty: there is no difference */
};

#define DIFF_RANGE_NONE ((struct diff_range){ .at = 0 })

/* Returns 0; 1 if a file or its range is too large (more than `most` bytes); or -errno; -ESTALE if a file shrinks
 * meanwhile. */
int diff_range_find(int was_fd, int now_fd, uint64_t most, struct diff_range *ret);
void diff_range_done(struct diff_range *range);

/* Hashes the shown text as blob_read() does: the new range, with the old file's text before and after it. If the new file
 * is written to during the comparison, the text shown never was its content, and the hash matches no file. */
int diff_range_hash(const struct diff_range *range, int was_fd, struct sha256_ctx *sha);
