/*
 * Shared by the files of this module.
 *
 * How a version is made:
 *
 *   stage      The maker creates and flocks a directory stage/tx_<id>, puts the new objects into it (n0, n1, ...) and syncs them.
 *   plan       Under the lock, txn_plan.c turns the requested changes into a list of renames, written and synced as `manifest`.
 *   commit     steps.c renames the directory to versions/<N> and syncs `versions`. This is the moment of commit: before it the
 *              directory is garbage in stage; after it the next holder of the lock finishes the version.
 *   perform    Replaced and removed objects are renamed to o<k> in the version, n<k> into `files`. The disk shows whether a rename
 *              was done (n<k> is gone, o<k> exists), so repeating all of them is safe.
 *   count      settle.c writes the new version and counters to `meta`. A version newer than `meta` still has to be performed.
 *
 * Only the steps before the commit wait for the disk. After a power cut the renames and `meta` may be missing and are done
 * again. This relies on a file system that preserves the order of renames, as ext4, XFS and btrfs do.
 *
 * Locks, in their order: 1. `lock` of the codebase (exclusive), 2. the stage directory (by its maker; recovery tries it without
 * waiting).
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
    int fd; /* owned; not O_PATH, because it is listed and synced */
    struct codebase_options options;
};

struct codebase {
    int root_fd, dir_fd, files_fd, versions_fd, stage_fd; /* owned */
    char id[ID_TEXT_MAX];
    struct stat st; /* of its directory, to detect that another one took its id */
    struct codebase_options options;
};

/* A point between two steps of a change, where tests may kill the process by name or by number. */
static inline void codebase_step(const char *name)
{
    fault(name);
    fault("codebase-step");
}

/* Takes the lock and settles. Closing the descriptor releases the lock; `ret_meta` is valid until then. -ENOENT if the codebase
 * was deleted. */
int codebase_lock(struct codebase *cb, int *ret_lock, struct codebase_meta *ret_meta, struct err *err);

/* Takes the lock without settling. */
int codebase_lock_only(struct codebase *cb, int *ret_lock, struct err *err);
int codebase_open_unsettled(struct codebases *all, const char *id, struct codebase **ret, struct err *err);

/* Directories in the root that are not codebases: one being created, one being deleted. */
#define CODEBASE_NEW_PREFIX "new_"
#define CODEBASE_DELETED_PREFIX "del_"
