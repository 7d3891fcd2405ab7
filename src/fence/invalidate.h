/*
 * Tells the kernel to drop pages and attributes, in a thread of its own: a worker that did it could wait for a page or a
 * directory that is locked until that very worker replies.
 */
#pragma once

#include "fence/fence_int.h"

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
