/*
 * Changes as a patch that `git apply` takes: text in hunks, everything else as git's binary patches, with modes, links and renames, paths
 * from the project's root. Exact bytes, not for a terminal.
 *
 * Git knows no directories and of the mode only whether a file may be executed: what is finer is told in a line that git skips. Files too large to
 * be compared are binary patches too; these are made while they are read, a piece at a time.
 */
#pragma once

#include "review/change_set.h"

/* 0, or a negative errno that ends it. */
typedef int (*patch_fn)(const void *bytes, size_t len, void *cookie);
/* All of one change has been handed over; likewise. */
typedef int (*patch_end_fn)(const struct file_change *change, void *cookie);

/* Of the changes at `places` (NULL: all), in that order. -ESTALE when one cannot be read as the set has it: a patch without it would not
 * be the review's. `end` may be NULL. */
int patch_write(struct change_set *set, const size_t *places, size_t count, patch_fn fn, patch_end_fn end, void *cookie,
                struct err *err);
