/*
 * The codebases of a host: plain files, each change a version.
 *
 *     <root>/cb_.../files       the current version; what a fence mounts as its base
 *     <root>/cb_.../versions/N  what version N replaced or removed, and its manifest: an undo layer
 *     <root>/cb_.../stage       what is being made: uploads, transactions before their commit
 *     <root>/cb_.../meta        counters
 *     <root>/cb_.../lock        held while a version is made
 *
 * Several processes work on a codebase at once: the server, and the supervisor of every sandbox that syncs to it. So all mutual
 * exclusion is by locks on disk that end with their holder, and a change is either not begun or can be finished by whoever
 * comes next: taking the lock first finishes what its last holder left (settle.h). A file in `files` is never modified, only
 * replaced by rename; nothing is reached through a symlink.
 *
 * All functions block. One object may be used by several threads. Every function of the room that takes a path takes it as the
 * API does: cleaned lexically, with or without a leading slash (tree_path.h).
 */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

#define CODEBASE_ID_PREFIX "cb_"

#define CODEBASE_KEEP_VERSIONS 50
#define CODEBASE_KEEP_NS (7LL * 24 * 3600 * 1000000000LL)

/* Zeroed: no quota, and the retention above. */
struct codebase_options {
    uint64_t quota_bytes;   /* of one codebase: its files and its undo layers; 0: none */
    uint64_t keep_versions; /* at most so many undo layers; 0: CODEBASE_KEEP_VERSIONS */
    int64_t keep_ns;        /* and none older than this; 0: CODEBASE_KEEP_NS */
};

struct codebases;
struct codebase;

/* The directory is made if it is not there. `options` may be NULL. */
int codebases_open(const char *root, const struct codebase_options *options, struct codebases **ret, struct err *err);
void codebases_close(struct codebases *all);
DEFINE_AUTOPTR(codebases, codebases_close);

/* Finishes what processes that died had begun: versions, deletions, uploads. For the start of the server; does no harm to
 * transactions of processes that live, but waits for them. Goes on after a failure and returns the first. */
int codebases_recover(struct codebases *all, struct err *err);

/* A nonzero answer ends it and is returned. In no particular order. */
typedef int (*codebase_id_fn)(const char *id, void *cookie);
int codebases_each(struct codebases *all, codebase_id_fn fn, void *cookie, struct err *err);

/* `id` is checked before it becomes a path: -EINVAL. -EEXIST; -ENOENT "codebase not found". An opened codebase holds
 * `all`'s descriptor and options of its own; it may outlive it. */
int codebase_create(struct codebases *all, const char *id, struct codebase **ret, struct err *err);
int codebase_open(struct codebases *all, const char *id, struct codebase **ret, struct err *err);
void codebase_close(struct codebase *cb);
DEFINE_AUTOPTR(codebase, codebase_close);

/* Waits for a version in the making. Gone at once for all who open it later; those who have it open get -ENOENT. What a crash or a
 * full disk leaves of it is removed by codebases_recover(). */
int codebase_delete(struct codebases *all, const char *id, struct err *err);

const char *codebase_id(const struct codebase *cb);
int codebase_files_fd(const struct codebase *cb); /* O_PATH of `files`, borrowed */

struct codebase_info {
    uint64_t version; /* 0: nothing was ever put in */
    uint64_t size_bytes;
    uint64_t file_count; /* whatever is no directory */
    uint64_t undo_bytes;
    uint64_t oldest_version; /* the state after this one and any later can be read and restored */
};

int codebase_info(struct codebase *cb, struct codebase_info *ret, struct err *err);

/* The same counted anew, by walking everything; says where the counters are wrong. */
int codebase_recount(struct codebase *cb, struct codebase_info *ret, struct err *err);

/* Finishes what a process that died had begun, as every change does first. For the server when a supervisor died, and before a
 * delta is mounted again: the files that a killed sync had moved leave the delta here. */
int codebase_settle(struct codebase *cb, struct err *err);
