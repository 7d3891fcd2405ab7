/*
 * Writes changes as a patch for `git apply`: text in hunks, everything else as git's binary patches, with modes, links and
 * renames, and paths from the project's root. Exact bytes, not for a terminal.
 *
 * Git knows no directories, and of the mode only whether a file is executable: other differences are in a line that git skips.
 * Files too large to be compared are binary patches too; these are made while they are read, a piece at a time.
 */
#pragma once

#include "review/change_set.h"

/* 0, or a negative errno, which stops the patch. */
typedef int (*patch_fn)(const void *bytes, size_t len, void *cookie);
/* Called when all of one change was passed on; returns the same. */
typedef int (*patch_end_fn)(const struct file_change *change, void *cookie);

/* Writes the changes at `places` (NULL: all), in that order. -ESTALE if one cannot be read as the set has it: a patch
 * without it would differ from the review. `end` may be NULL. */
int patch_write(struct change_set *set, const size_t *places, size_t count, patch_fn fn, patch_end_fn end, void *cookie,
                struct err *err);
