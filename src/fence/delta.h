/*
 * The directory that holds a sandbox's changes.
 *
 *     <delta>/meta/format    says that it is one, and of which version
 *     <delta>/meta/base      the base it was made over: its name, and which directory that is
 *     <delta>/meta/lock      held while a fence uses it
 *     <delta>/meta/...       journal, changes (change_log.h), pre-images, roots, numbers, origins, handover, drop
 *     <delta>/work           what is being made; emptied at mount
 *     <delta>/data           the changes: plain files and markers (whiteout.h)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/dir_identity.h"
#include "base/err.h"

struct fence;
struct fence_config;

/* Makes or opens it for a fence and fills the fence's descriptors. Refuses a directory that is not empty and no delta, one in
 * use, one of another base. */
int delta_open(struct fence *f, const struct fence_config *config, struct err *err);

/* Takes back a directory that delta_open() made, with all that the fence put into it: for one that never served anybody. Before the lock is
 * given up. Does nothing to a delta that was there. */
void delta_undo_open(struct fence *f);

/* A delta is made without waiting for the disk, because most are thrown away. Before the first fsync of a client is answered it
 * must last, with all that was made around it: hence syncfs(). Cheap when that was done. */
int delta_persist(struct fence *f);

/* Reads what it holds into the tree. */
int delta_load(struct fence *f, struct err *err);

/* Makes the directories that `write` rules promise. */
int delta_make_roots(struct fence *f, struct err *err);

/* What a delta says about itself, without a fence. */
struct delta_info {
    char *base_path; /* owned */
    struct dir_identity base;
    bool is_base_bound; /* `base` is the only directory it is for; otherwise its name is enough */
    int64_t made_ns;    /* wall clock */
    int data_fd, meta_fd;
    bool is_unwitnessed; /* no fence saw the changes: the change log says nothing of them */
};

#define DELTA_UNWITNESSED "unwitnessed" /* the file in meta/ that says so */

#define DELTA_INFO_NONE ((struct delta_info){ .data_fd = -1, .meta_fd = -1 })

int delta_info_open(const char *path, struct delta_info *ret_info, struct err *err);
void delta_info_done(struct delta_info *about);

/* Opens the directory that the delta was made over, or refuses: with -EXDEV, ERR_FAILED_PRECONDITION and BASE_REPLACED when another one has
 * its name by now. Whoever reads or writes the base for a sandbox opens it by this and uses the descriptor. */
int delta_info_open_base(const struct delta_info *about, int flags, struct err *err);

/* The same for one that is open already. */
int delta_info_check_base(const struct delta_info *about, int base_fd, struct err *err);
