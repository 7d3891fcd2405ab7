/*
 * Performing a version: the renames its manifest lists. See codebase_int.h for where this stands.
 */
#pragma once

#include "codebase/manifest.h"

/* All of them, done or not yet. Under the lock. */
int steps_perform(struct codebase *cb, int version_fd, const struct manifest *m);

/* Then: removes the files they came from, if these are still what they were. From here on there is no way back. */
int steps_drop_sources(struct codebase *cb, int version_fd, const struct manifest *m);

/* The way back, for a version of which a step failed and that nobody was told of: as if it had never been. */
int steps_undo(struct codebase *cb, int version_fd, const struct manifest *m);

/* One of them, by its absolute path. */
int steps_remove_source(const char *source, uint64_t ino, int64_t mtime_ns);
