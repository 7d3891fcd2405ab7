/*
 * Names, pages and listings that the kernel must drop. Collected while the gate is held, sent when it is open again (see
 * notify.h).
 */
#pragma once

#include "fence/inode.h"

struct inval_name {
    struct inode *dir; /* owned reference */
    char *name;        /* owned */
    bool only_expires;
};

struct inval_batch {
    struct inval_name *names;
    size_t name_count, name_cap;
    struct inode_list inodes, dirs;
    bool is_wide; /* any name in `dirs` may have changed, also one that did not exist */
};

#define INVAL_BATCH_NONE ((struct inval_batch){ 0 })

/* A directory that still exists only expires: dropping its name breaks getcwd() for processes in it. */
void inval_batch_add_name(struct fence *f, struct inval_batch *batch, struct inode *dir, const char *name, bool only_expires);
void inval_batch_add_pages(struct fence *f, struct inval_batch *batch, struct inode *inode); /* and attributes */
void inval_batch_add_listing(struct fence *f, struct inval_batch *batch, struct inode *dir); /* and attributes */

/* Sends it to the kernel and empties it. With `and_waits` the kernel also drops answers that are under way. */
void inval_batch_send(struct fence *f, struct inval_batch *batch, bool and_waits);

/* Empties it without sending, when there is no mount. */
void inval_batch_discard(struct fence *f, struct inval_batch *batch);
