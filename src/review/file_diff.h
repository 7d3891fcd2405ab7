/*
 * One change, read and compared: both sides as they were found, and the hunks between them. Each file is read once, and the hash is of
 * the bytes that the hunks show.
 */
#pragma once

#include "review/change_set.h"
#include "review/hunk.h"
#include "review/side.h"

#define FILE_DIFF_MAX ((uint64_t) 8 << 20) /* larger ones are told by their sizes */

struct file_diff {
    struct side was, now;   /* SIDE_NONE also for a directory, and when only the mode changes */
    bool is_retyped;        /* a file became a link, or a link a file: no hunks */
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
