/*
 * The versions of a codebase. While a version is kept it has an undo layer: the state before it can be read (codebase_get.h)
 * and restored, and the losing side of a conflict can be recovered.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "codebase/codebase_txn.h"

struct codebase_version {
    uint64_t number;
    int64_t time_ns;
    const char *by, *reason; /* borrowed for the call; "" if unknown */
    size_t put_count, removed_count, conflict_count;
    uint64_t undo_bytes;
};

/* A nonzero result ends the iteration and is returned. Newest first. */
typedef int (*codebase_version_fn)(const struct codebase_version *version, void *cookie);
int codebase_versions(struct codebase *cb, codebase_version_fn fn, void *cookie, struct err *err);

struct codebase_version_entry {
    const char *path; /* borrowed for the call */
    bool is_removed;
    bool is_tree;
    bool is_conflict, has_lost;
    int64_t when_ns;
    uint64_t size_bytes;
    const char *sha256; /* NULL if unknown */
};

typedef int (*codebase_version_entry_fn)(const struct codebase_version_entry *entry, void *cookie);
int codebase_version_entries(struct codebase *cb, uint64_t version, codebase_version_entry_fn fn, void *cookie,
                             struct err *err);

/* Makes a new version with the content of an earlier one: everything, or one path (NULL: all) with everything beneath. Paths
 * that are equal already do not change. `ret` may be NULL. -ERANGE for a version that is not kept. */
int codebase_restore(struct codebase *cb, uint64_t version, const char *path, const char *by, struct codebase_commit *ret,
                     struct err *err);

/* Makes a new version with the content that lost at this path in that version. -ENOENT if none did. */
int codebase_recover_loser(struct codebase *cb, uint64_t version, const char *path, const char *by, struct codebase_commit *ret,
                           struct err *err);
