/*
 * A delta made by comparing two trees, for sandboxes that work on a copy:
 *
 *     <dir>/copy/original     what the base was, for comparing and merging; nobody writes there
 *     <dir>/copy/workspace    what the agent works on
 *     <dir>/delta             made anew whenever somebody wants to see the changes: the same as a fence would have kept
 *
 * Files that changed are in the delta by another link, so it costs no space; symlinks, modes, deletions and the change log with its
 * pre-images are as a fence writes them. Other attributes than mode and time are not carried.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

#define COPY_DELTA_WORKSPACE "copy/workspace"
#define COPY_DELTA_MARK "copied" /* the file in the delta's meta/ that says it is made so */

/* Copies all that is in a directory to `to` beneath another, by reference where the file system can. */
int copy_delta_tree(int from_fd, int to_fd, const char *to, struct err *err);

/* Copies the base, by reference where the file system can, unless that was done. Killed in between it begins again. */
int copy_delta_make(int sandbox_fd, int base_fd, struct err *err);

/* `delta_path` is the directory `delta` in `sandbox_fd`. Nothing to do, and 0, when there is no copy, and when somebody has the delta's
 * lock: who applies changes has it, after a refresh of its own. `base_fd` as in struct fence_config. */
int copy_delta_refresh(int sandbox_fd, const char *delta_path, const char *base_path, int base_fd, struct err *err);

/*
 * What becomes of paths (no leading slash) that were decided on. Nobody changes the agent's tree meanwhile.
 *
 * follow: they are as the base has them from now on, for the agent too. A file that somebody is writing to stays the same one, and a
 * directory that both have stays the one that processes stand in.
 * stand: what the agent has there is what it is compared with from now on; its tree is not touched.
 * stand_on: it is compared with this text instead.
 */
int copy_delta_revert(int sandbox_fd, int base_fd, const char *const *paths, size_t count, struct err *err);
int copy_delta_accept(int sandbox_fd, const char *const *paths, size_t count, struct err *err);
int copy_delta_accept_text(int sandbox_fd, const char *path, const void *bytes, size_t len, mode_t mode, struct err *err);
