/*
 * Makes the kernel drop what it caches: single notifications, batches of them, and a thread that sends them for workers.
 */
#pragma once

#include "fence/inode.h"

/* ---- notifications ---- */

/* -ENOENT: nothing was cached. Never call them from a worker or with the gate held: they may wait for a page or a directory
 * that is locked until a worker replies. */
int notify_entry(struct fence *f, struct inode *dir, const char *name, bool only_expire);
int notify_pages(struct fence *f, struct inode *inode); /* and attributes */
int notify_listing(struct fence *f, struct inode *dir); /* the same, also for answers that are under way: waits for them */
int notify_all_names(struct fence *f);                  /* -EINVAL before Linux 6.16 */

/* ---- batches ---- */

/* Names, pages and listings that the kernel must drop: collected while the gate is held, sent when it is open again. */
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

/* The same with `and_waits`, or only empties it. Not while fence_run() ends. */
void inval_batch_send_if_mounted(struct fence *f, struct inval_batch *batch);

/* ---- the thread ---- */

struct invalidator;

struct invalidator *invalidator_new(struct fence *f);
int invalidator_start(struct invalidator *invalidator);
void invalidator_stop(struct invalidator *invalidator); /* finishes the queue first */
void invalidator_free(struct invalidator *invalidator);

/* Called when the kernel has dropped them; may reply to a request. */
typedef void (*invalidated_fn)(void *cookie);

/* Drops pages and attributes of the inode and then calls `fn` in the invalidator's thread, or at once if there is none. For
 * answers that must not come before that. The thread waits only for readers and writers of the inode, whom other workers serve;
 * nothing else that waits for clients may be queued here. */
void invalidate_then(struct fence *f, struct inode *inode, invalidated_fn fn, void *cookie);

/* Does so at once. Not for workers. Clears INODE_STALE. */
void invalidate_now(struct fence *f, struct inode *inode);

/* Drops pages and attributes of the inode soon. From any thread, under any lock but fence.names. */
void invalidate_soon(struct fence *f, struct inode *inode);
