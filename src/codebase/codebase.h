/*
 * The codebases of a host: plain files, with a version for each change.
 *
 *     <root>/cb_.../files       the current version, which a fence mounts as its base
 *     <root>/cb_.../versions/N  an undo layer: the files that version N replaced or removed, and its manifest
 *     <root>/cb_.../stage       work in progress: uploads, and transactions before their commit
 *     <root>/cb_.../meta        counters
 *     <root>/cb_.../lock        held while a version is made
 *
 * Several processes work on a codebase at once: the server, and the supervisor of every sandbox that syncs to it. All mutual
 * exclusion therefore uses locks on disk, which the kernel releases when their holder dies. A change either has not begun, or
 * the next process can finish it: taking the lock first finishes the work of the last holder (settle.h). A file in `files` is
 * never modified, only replaced by rename. No operation goes through a symlink.
 *
 * All functions block. Several threads may use one object. Functions of this module accept paths as the API does: they clean
 * them lexically, and a leading slash is optional (tree_path.h).
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

#define CODEBASE_ID_PREFIX "cb_"

#define CODEBASE_KEEP_VERSIONS 50
#define CODEBASE_KEEP_NS (7LL * 24 * 3600 * 1000000000LL)

/* Zeroed: no quota, and the default retention above. */
struct codebase_options {
    uint64_t quota_bytes;   /* for one codebase, its files and undo layers together; 0: none */
    uint64_t keep_versions; /* the number of undo layers to keep; 0: CODEBASE_KEEP_VERSIONS */
    int64_t keep_ns;        /* the age up to which they are kept; 0: CODEBASE_KEEP_NS */
};

struct codebases;
struct codebase;

/* Creates the directory if necessary. `options` may be NULL. */
int codebases_open(const char *root, const struct codebase_options *options, struct codebases **ret, struct err *err);
void codebases_close(struct codebases *all);
DEFINE_AUTOPTR(codebases, codebases_close);

/* Finishes the versions, deletions and uploads of processes that died. For the start of the server. Transactions of running
 * processes are safe, but it waits for them. Continues after a failure and returns the first one. */
int codebases_recover(struct codebases *all, struct err *err);

/* A nonzero result ends the iteration and is returned. In no particular order. */
typedef int (*codebase_id_fn)(const char *id, void *cookie);
int codebases_each(struct codebases *all, codebase_id_fn fn, void *cookie, struct err *err);

/* `id` is validated before it becomes part of a path: -EINVAL. -EEXIST; -ENOENT "codebase not found". An open codebase has its
 * own copy of the descriptor and options of `all` and may outlive it. */
int codebase_create(struct codebases *all, const char *id, struct codebase **ret, struct err *err);
int codebase_open(struct codebases *all, const char *id, struct codebase **ret, struct err *err);
void codebase_close(struct codebase *cb);
DEFINE_AUTOPTR(codebase, codebase_close);

/* Waits for a version in progress. Later calls of codebase_open() do not find the codebase any more, and operations on open
 * ones return -ENOENT. codebases_recover() removes what a crash or a full disk left behind. */
int codebase_delete(struct codebases *all, const char *id, struct err *err);

const char *codebase_id(const struct codebase *cb);
int codebase_files_fd(const struct codebase *cb); /* `files`, opened with O_PATH, borrowed */

struct codebase_info {
    uint64_t version; /* 0: nothing was ever stored */
    uint64_t size_bytes;
    uint64_t file_count; /* everything except directories */
    uint64_t undo_bytes;
    uint64_t oldest_version; /* the states after this version and all later ones can be read and restored */
};

int codebase_info(struct codebase *cb, struct codebase_info *ret, struct err *err);

/* Like codebase_info(), but counts by walking all files. A difference means that the counters are wrong. */
int codebase_recount(struct codebase *cb, struct codebase_info *ret, struct err *err);

/* Finishes the work of a process that died, as every change does first. The server calls it when a supervisor died and before a
 * delta is mounted again, because it removes the files of a killed sync from the delta. */
int codebase_settle(struct codebase *cb, struct err *err);
