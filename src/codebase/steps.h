/*
 * Performs a version: the renames in its manifest. codebase_int.h shows this step in its context.
 */
#pragma once

#include "codebase/manifest.h"

/* Performs all renames that are not done yet. Needs the lock. */
int steps_perform(struct codebase *cb, int version_fd, const struct manifest *m);

/* The next step: removes the files in the delta that the version took, unless they have changed. After this step there is no
 * undo. */
int steps_drop_sources(struct codebase *cb, int version_fd, const struct manifest *m);

/* Undoes a version of which a step failed and that was not reported to any caller. */
int steps_undo(struct codebase *cb, int version_fd, const struct manifest *m);

/* Removes one such file, by its absolute path. */
int steps_remove_source(const char *source, uint64_t ino, int64_t mtime_ns);
