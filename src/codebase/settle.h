/*
 * From a version that is committed to one that is performed and counted, for the process that made it and for any that comes after.
 */
#pragma once

#include "codebase/manifest.h"
#include "codebase/stage.h"

/* Performs every version newer than `meta` says, and counts anew where `meta` is lost. Under the lock. */
int settle(struct codebase *cb, struct codebase_meta *ret_meta);

/* Makes a version of the stage: number, quota, manifest, commit, steps, counters. Under the lock; `meta` is brought up to date.
 * After a failure the codebase is as it was, with one exception: -EINPROGRESS means that neither the last step nor
 * the way back could be done, and that the version will be finished by whoever takes the lock when that is possible again. */
int settle_commit(struct stage *stage, struct manifest *m, struct codebase_meta *meta, struct err *err);

/* O_PATH of a version's directory, or -ENOENT. */
int settle_open_version(struct codebase *cb, uint64_t version);

/* Counts everything from the disk, undo layers from `oldest` on. */
int settle_recount(struct codebase *cb, uint64_t oldest, struct codebase_meta *ret);
