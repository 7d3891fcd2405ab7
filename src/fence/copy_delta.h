/*
 * A delta made by comparing two trees, for sandboxes that work on a copy:
 *
 *     <dir>/copy/original     the base at the start, for comparing and merging; never written
 *     <dir>/copy/workspace    the agent's tree
 *     <dir>/delta             made again whenever somebody wants to see the changes, as a fence would have kept it
 *
 * Changed files are in the delta as hard links, which cost no space. Symlinks, modes, deletions and the change log with its
 * pre-images are as a fence writes them. Attributes other than mode and time are not carried.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

#define COPY_DELTA_WORKSPACE "copy/workspace"
#define COPY_DELTA_MARK "copied" /* the file in meta/ that marks a delta as made in this way */

/* Copies a directory to `to` beneath another, by reflink where the file system supports it. */
int copy_delta_tree(int from_fd, int to_fd, const char *to, struct err *err);

/* Copies the base in the same way, unless that was done before. If killed meanwhile it starts again. */
int copy_delta_make(int sandbox_fd, int base_fd, struct err *err);

/* Makes the delta again. `delta_path` is the directory `delta` in `sandbox_fd`, `base_fd` as in struct fence_config. Does
 * nothing and returns 0 if there is no copy, or if somebody has locked the delta: they apply changes and have refreshed it
 * themselves. */
int copy_delta_refresh(int sandbox_fd, const char *delta_path, const char *base_path, int base_fd, struct err *err);

/*
 * What happens to paths (no leading slash) after a decision. The agent's tree must not change meanwhile.
 *
 * revert: they become as the base has them, for the agent too. A file that a process is writing to stays the same file, and a
 * directory that both have remains the working directory of the processes in it. accept: what the agent has is what it is
 * compared with from now on; its tree is not touched. accept_text: it is compared with this text instead.
 */
int copy_delta_revert(int sandbox_fd, int base_fd, const char *const *paths, size_t count, struct err *err);
int copy_delta_accept(int sandbox_fd, const char *const *paths, size_t count, struct err *err);
int copy_delta_accept_text(int sandbox_fd, const char *path, const void *bytes, size_t len, mode_t mode, struct err *err);
