/*
 * What the kernel has to hear: names, pages and listings that are no longer what it remembers. Collected while the gate is held,
 * told when it is open again (see notify.h).
 */
#pragma once

#include "fence/fence_int.h"

struct inval_name {
    struct inode *dir; /* owned reference, as all here */
    char *name;        /* owned */
    bool only_expires;
};

struct inval_batch {
    struct inval_name *names;
    struct inode **inodes, **dirs;
    size_t name_count, name_cap, inode_count, inode_cap, dir_count, dir_cap;
    bool is_wide; /* any name in `dirs` may be another now, also one that was not there */
};

#define INVAL_BATCH_NONE ((struct inval_batch){ 0 })

/* A directory that is still there only expires: a dropped one breaks getcwd for who stands in it. */
void inval_batch_add_name(struct fence *f, struct inval_batch *batch, struct inode *dir, const char *name, bool only_expires);
void inval_batch_add_pages(struct fence *f, struct inval_batch *batch, struct inode *inode); /* and attributes */
void inval_batch_add_listing(struct fence *f, struct inval_batch *batch, struct inode *dir); /* and attributes */

/* Tells it and empties it. With `and_waits` also answers that are on their way count for nothing when this returns. */
void inval_batch_send(struct fence *f, struct inval_batch *batch, bool and_waits);

/* Empties it: there is nobody to tell. */
void inval_batch_discard(struct fence *f, struct inval_batch *batch);
