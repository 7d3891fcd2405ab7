/*
 * The versions of a codebase. Each has an undo layer for as long as it is kept: the state before it can be read
 * (codebase_get.h) and restored, and changes that lost a conflict can be had back.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "codebase/codebase_txn.h"

struct codebase_version {
    uint64_t number;
    int64_t time_ns;
    const char *by, *reason; /* borrowed for the call; "" when unknown */
    size_t put_count, removed_count, conflict_count;
    uint64_t undo_bytes;
};

/* Nonzero answers end it and are returned. Newest first. */
typedef int (*codebase_version_fn)(const struct codebase_version *version, void *cookie);
int codebase_versions(struct codebase *cb, codebase_version_fn fn, void *cookie, struct err *err);

struct codebase_version_entry {
    const char *path; /* borrowed for the call */
    bool is_removed;
    bool is_tree;
    bool is_conflict, has_lost;
    int64_t when_ns;
    uint64_t size_bytes;
    const char *sha256; /* NULL where it is not known */
};

typedef int (*codebase_version_entry_fn)(const struct codebase_version_entry *entry, void *cookie);
int codebase_version_entries(struct codebase *cb, uint64_t version, codebase_version_entry_fn fn, void *cookie,
                             struct err *err);

/* A new version whose content is that of an earlier one: all of it, or of one path (NULL: all) and what is beneath. What is
 * the same already is no change. `ret` may be NULL. -ERANGE for a version that is not kept. */
int codebase_restore(struct codebase *cb, uint64_t version, const char *path, const char *by, struct codebase_commit *ret,
                     struct err *err);

/* A new version with what lost at this path in that version. -ENOENT when nothing did. */
int codebase_recover_loser(struct codebase *cb, uint64_t version, const char *path, const char *by, struct codebase_commit *ret,
                           struct err *err);
