/*
 * What the files of this room share.
 *
 * A version is made so:
 *
 *   stage      A directory stage/tx_<id>, flocked by its maker, takes the new objects (n0, n1, ...), all synced.
 *   plan       Under the lock, what is wanted becomes a list of renames, written and synced as `manifest`.        txn_plan.c
 *   commit     The directory is renamed to versions/<N> and `versions` is synced. Here it happens: before, it is garbage of
 *              stage; after, it will be finished by whoever takes the lock next.                                  steps.c
 *   perform    What is replaced or removed goes to o<k> in the version, n<k> goes into `files`. Each rename shows on disk
 *              whether it was done (n<k> is gone, o<k> is there), so doing all of them again does no harm.
 *   count      `meta` gets the new version and counters. A version newer than `meta` is one to be performed.      settle.c
 *
 * Only what precedes the commit is waited for on disk. After a power cut the renames and `meta` may be missing, and are made
 * again; this relies on the file system to keep the order of renames, as ext4, XFS and btrfs do.
 *
 * Locks, in their order: 1. `lock` of the codebase (exclusive), 2. the stage directory (its maker; recovery asks without waiting).
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/id.h"
#include "codebase/codebase.h"
#include "codebase/codebase_meta.h"
#include "codebase/tree.h"

struct codebases {
    int fd; /* owned; not O_PATH, so that it can be listed and synced */
    struct codebase_options options;
};

struct codebase {
    int root_fd, dir_fd, files_fd, versions_fd, stage_fd; /* owned */
    char id[ID_TEXT_MAX];
    struct stat st; /* of its directory, to know it again */
    struct codebase_options options;
};

/* A moment between two steps of a change: a test may end the process here, by its name or by its number. */
static inline void codebase_step(const char *name)
{
    fault(name);
    fault("codebase-step");
}

/* Takes the lock and settles. The descriptor releases it when closed. `ret_meta` holds as long. -ENOENT: it was deleted. */
int codebase_lock(struct codebase *cb, int *ret_lock, struct codebase_meta *ret_meta, struct err *err);

/* The same without settling. */
int codebase_lock_only(struct codebase *cb, int *ret_lock, struct err *err);
int codebase_open_unsettled(struct codebases *all, const char *id, struct codebase **ret, struct err *err);

/* Directories in the root that are no codebases: one in the making, one that is deleted. */
#define CODEBASE_NEW_PREFIX "new_"
#define CODEBASE_DELETED_PREFIX "del_"
