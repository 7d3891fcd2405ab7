/*
 * The directory that holds a sandbox's changes.
 *
 *     <delta>/meta/format    marks it as a delta, and of which version
 *     <delta>/meta/base      the base it was made over: its name, and which directory that is
 *     <delta>/meta/lock      locked while a fence uses it
 *     <delta>/meta/...       journal, changes (change_log.h), pre-images, roots, numbers, origins, handover, drop
 *     <delta>/work           files being made; emptied at mount
 *     <delta>/data           the changes: plain files and markers (whiteout.h)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/dir_identity.h"
#include "base/err.h"

struct fence;
struct fence_config;

/* Makes or opens it for a fence and sets the fence's descriptors. Refuses a directory that is neither empty nor a delta, one in
 * use, and one of another base. */
int delta_open(struct fence *f, const struct fence_config *config, struct err *err);

/* Removes a directory that delta_open() made, with all that the fence put into it, for a fence that never served. Call it while
 * the lock is held. Does nothing to a delta that existed before. */
void delta_undo_open(struct fence *f);

/* Makes the delta itself durable. It is made without waiting for the disk, because most deltas are thrown away. Before the
 * first fsync of a client is answered it must last, with all that was made around it: hence syncfs(). Cheap if that was done
 * before. */
int delta_persist(struct fence *f);

/* Loads its content into the tree in memory. */
int delta_load(struct fence *f, struct err *err);

/* Makes the directories that `write` rules name. */
int delta_make_roots(struct fence *f, struct err *err);

/* `roots` is the text of meta/roots, where delta_make_roots() records what it made: returns true for such a directory, or one
 * above. */
bool delta_is_root(const struct buf *roots, const char *path, size_t len);

/* What a delta records about itself; usable without a fence. */
struct delta_info {
    char *base_path; /* owned */
    struct dir_identity base;
    bool is_base_bound; /* the delta is for directory `base` only; otherwise the name is enough */
    int64_t made_ns;    /* wall clock */
    int data_fd, meta_fd;
    bool is_unwitnessed; /* no fence saw the changes, so the change log does not describe them */
};

#define DELTA_UNWITNESSED "unwitnessed" /* the file in meta/ that records it */

#define DELTA_INFO_NONE ((struct delta_info){ .data_fd = -1, .meta_fd = -1 })

int delta_info_open(const char *path, struct delta_info *ret_info, struct err *err);
void delta_info_done(struct delta_info *about);

/* Opens the directory that the delta was made over. If another directory has its name by now, fails with -EXDEV,
 * ERR_FAILED_PRECONDITION and BASE_REPLACED. Whoever reads or writes the base for a sandbox opens it by this function and uses
 * the descriptor. */
int delta_info_open_base(const struct delta_info *about, int flags, struct err *err);

/* The same check for an open directory. */
int delta_info_check_base(const struct delta_info *about, int base_fd, struct err *err);
