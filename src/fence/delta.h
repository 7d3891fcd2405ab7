/*
 * The directory that holds a sandbox's changes.
 *
 *     <delta>/meta/format    says that it is one, and of which version
 *     <delta>/meta/base      the base it was made over: its name, and which directory that is
 *     <delta>/meta/lock      held while a fence uses it
 *     <delta>/meta/...       journal, changes (record.h), pre-images, roots, numbers, origins, handover, drop
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
void delta_unmake(struct fence *f);

/* A delta is made without waiting for the disk, because most are thrown away. Before the first fsync of a client is answered it
 * must last, with all that was made around it: hence syncfs(). Cheap when that was done. */
int delta_settle(struct fence *f);

/* Reads what it holds into the tree. */
int delta_load(struct fence *f, struct err *err);

/* Makes the directories that `write` rules promise. */
int delta_make_roots(struct fence *f, struct err *err);

/* What a delta says about itself, without a fence. */
struct delta_about {
    char *base_path; /* owned */
    struct dir_identity base;
    bool is_base_bound; /* `base` is the only directory it is for; otherwise its name is enough */
    int64_t made_ns;    /* wall clock */
    int data_fd, meta_fd;
    bool is_unwitnessed; /* no fence saw the changes: the diary says nothing of them */
};

#define DELTA_UNWITNESSED "unwitnessed" /* the file in meta/ that says so */

#define DELTA_ABOUT_NONE ((struct delta_about){ .data_fd = -1, .meta_fd = -1 })

int delta_about_open(const char *path, struct delta_about *ret_about, struct err *err);
void delta_about_done(struct delta_about *about);

/* Opens the directory that the delta was made over, or refuses: with -EXDEV, ERR_FAILED_PRECONDITION and BASE_REPLACED when another one has
 * its name by now. Whoever reads or writes the base for a sandbox opens it by this and uses the descriptor. */
int delta_about_open_base(const struct delta_about *about, int flags, struct err *err);

/* The same for one that is open already. */
int delta_about_check_base(const struct delta_about *about, int base_fd, struct err *err);
