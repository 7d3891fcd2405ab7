/*
 * A directory beneath `stage` for work in progress, on the file system of `files`. Its maker holds a lock on it that ends with
 * the process, so recovery can tell leftovers from work in progress. Renamed into `versions` it becomes a version.
 */
#pragma once

#include "codebase/codebase_int.h"

struct stage {
    struct codebase *cb; /* borrowed */
    int fd;              /* owned, flocked */
    char name[ID_TEXT_MAX];
    bool is_committed; /* it has become a version and must not be removed */
    bool has_trimmed;  /* its commit moved old versions aside, to be removed after the lock is released */
};

#define STAGE_NONE ((struct stage){ .fd = -1 })

int stage_init(struct stage *stage, struct codebase *cb);
void stage_done(struct stage *stage); /* removes it unless it became a version */

/* Remove every stage without a living owner; or one name, in any directory. */
int stage_collect(struct codebase *cb);
int stage_collect_one(int dirfd, const char *name);

/* Copies a file, a symlink or a directory with everything beneath; shares blocks if the file system can. Drops set-user-ID,
 * set-group-ID and sticky bits; keeps user attributes and times; hard links become separate files. Skips devices, FIFOs and
 * sockets, but returns -EINVAL if one is named directly. The target must not exist. */
int stage_copy(int from_dirfd, const char *from, int to_dirfd, const char *to);

/* Makes a file from a delta ours: removes set-user-ID, set-group-ID and sticky bits and capabilities, sets our owner, and makes
 * it readable for us. */
int stage_tame(int dirfd, const char *name, const struct stat *st);

/* Waits until all content is on disk, except for the names, which the commit syncs. `objects` is the amount, to choose the
 * cheaper way. */
int stage_sync(struct stage *stage, size_t objects);
