/*
 * One change, read and compared: both sides, and the hunks between them. What is shown is what an approval would do.
 *
 * If the project has what the agent worked from, the sides are what the project has and what the agent has. If it has moved on, they are
 * what the project has and what both merged become (reconcile.h): the owner's lines are none of the agent's. What cannot be merged is
 * in conflict, as `state` and `reason` of the change say, and nothing of it would be applied; the sides are then what the
 * agent worked from, where that is known and the project has a file there at all, and what the agent made of it.
 *
 * The bytes that are shown are those that were hashed.
 */
#pragma once

#include "review/blob.h"
#include "review/change_set.h"
#include "review/hunk.h"

#define FILE_DIFF_MAX ((uint64_t) 8 << 20) /* of larger ones only where they differ, if that is no more (diff_range.h) */

struct file_diff {
    struct blob was, now;   /* BLOB_NONE also for a directory, and when only the mode changes */
    bool is_retyped;        /* a file became a link, or a link a file: no hunks */
    bool is_aside;          /* of a conflict: `was` is what the agent worked from, and not what the project has */
    struct hunk_list hunks; /* none for links, binary files and what is too large */
};

#define FILE_DIFF_NONE ((struct file_diff){ .is_retyped = false })

/* Also fills what the change says of lines, hash and failure. A failure to read is no error: the change has it, and there are no
 * hunks. From several threads, as long as each has a change of its own. */
int file_diff_make(const struct change_set *set, struct file_change *change, struct file_diff *ret, struct err *err);
void file_diff_done(struct file_diff *diff);

/* Lines and hash, or only the hash, without keeping anything. */
int file_diff_measure(const struct change_set *set, struct file_change *change, struct err *err);
int file_diff_hash(const struct change_set *set, struct file_change *change, struct err *err);
