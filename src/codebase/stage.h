/*
 * A place for what is being made, a directory beneath `stage` on the file system of `files`. Its maker holds a lock on it that ends
 * with the process, so recovery can tell leftovers from work in progress. Moved into `versions` it becomes a version.
 */
#pragma once

#include "codebase/codebase_int.h"

struct stage {
    struct codebase *cb; /* borrowed */
    int fd;              /* owned, flocked */
    char name[ID_TEXT_MAX];
    bool is_committed; /* it is a version now, and not to be removed */
    bool has_trimmed;  /* its commit took out old versions, to be removed when the lock is released */
};

#define STAGE_NONE ((struct stage){ .fd = -1 })

int stage_init(struct stage *stage, struct codebase *cb);
void stage_done(struct stage *stage); /* removes it, unless it became a version */

/* Removes all that no living process holds; or one name, of any directory. */
int stage_collect(struct codebase *cb);
int stage_collect_one(int dirfd, const char *name);

/* Copies a file, a symlink or a directory with all in it; shares the blocks where the file system can. Modes lose set-user-ID and
 * its like; user attributes and times stay; links become files of their own. Devices and their like are left out, except that
 * one asked for by name is -EINVAL. The target must not exist. */
int stage_copy(int from_dirfd, const char *from, int to_dirfd, const char *to);

/* Makes what comes from elsewhere ours: no set-user-ID, set-group-ID, sticky bit or capabilities, our owner, and a directory or a
 * file that we can read. */
int stage_tame(int dirfd, const char *name, const struct stat *st);

/* Waits until all in it is on disk, except for its names, which the commit waits for. `objects` says how much there is, to choose the
 * cheaper way. */
int stage_sync(struct stage *stage, size_t objects);
