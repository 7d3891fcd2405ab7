/*
 * Reads and compares one change: both sides, and the hunks between them. It shows what an approval would do.
 *
 * If the project has what the agent worked from, the sides are the project's version and the agent's. If it has changed, they
 * are the project's version and the merge of both (reconcile.h), so that the owner's lines do not appear as the agent's. If
 * they cannot be merged, `state` and `reason` of the change report a conflict, and nothing would be applied; the sides are
 * then what the agent worked from, if that is known and the project has a file there at all, and the agent's version.
 *
 * The bytes that are shown are those that were hashed.
 */
#pragma once

#include "review/blob.h"
#include "review/change_set.h"
#include "review/hunk.h"

#define FILE_DIFF_MAX ((uint64_t) 8 << 20) /* larger files only where they differ, if that is no more (diff_range.h) */

struct file_diff {
    struct blob was, now;   /* BLOB_NONE also for a directory, and if only the mode changes */
    bool is_retyped;        /* a file became a link, or a link a file: no hunks */
    bool is_aside;          /* of a conflict: `was` is what the agent worked from, not the project's version */
    struct hunk_list hunks; /* none for links, binary files and files that are too large */
};

#define FILE_DIFF_NONE ((struct file_diff){ .is_retyped = false })

/* Also sets lines, hash and failure of the change. A read failure is not an error: it is stored in the change, without
 * hunks. Threads may call it with different changes. */
int file_diff_make(const struct change_set *set, struct file_change *change, struct file_diff *ret, struct err *err);
void file_diff_done(struct file_diff *diff);

/* Sets lines and hash, or only the hash, and keeps no text. */
int file_diff_measure(const struct change_set *set, struct file_change *change, struct err *err);
int file_diff_hash(const struct change_set *set, struct file_change *change, struct err *err);
