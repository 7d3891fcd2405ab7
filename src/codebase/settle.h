/*
 * Takes a committed version to one that is performed and counted; in the process that made it, or in a later one.
 */
#pragma once

#include "codebase/manifest.h"
#include "codebase/stage.h"

/* Performs every version newer than `meta`, and counts again if `meta` is lost. Needs the lock. */
int settle(struct codebase *cb, struct codebase_meta *ret_meta);

/* Turns the stage into a version: number, quota, manifest, commit, steps, counters. Needs the lock; updates `meta`. After a
 * failure the codebase is unchanged, with one exception: -EINPROGRESS means that neither the last step nor its undo succeeded,
 * and a later holder of the lock will finish the version. */
int settle_commit(struct stage *stage, struct manifest *m, struct codebase_meta *meta, struct err *err);

/* Opens a version's directory with O_PATH, or returns -ENOENT. */
int settle_open_version(struct codebase *cb, uint64_t version);

/* Counts everything on the disk; undo layers from `oldest` on. */
int settle_recount(struct codebase *cb, uint64_t oldest, struct codebase_meta *ret);
