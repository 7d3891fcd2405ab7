/*
 * Telling the kernel to forget, from a thread of its own: a worker that did it could wait for a page or a directory which is
 * held until that very worker replies.
 */
#pragma once

#include "fence/fence_int.h"

struct invalidator;

struct invalidator *invalidator_new(struct fence *f);
int invalidator_start(struct invalidator *invalidator);
void invalidator_stop(struct invalidator *invalidator); /* what is queued is done first */
void invalidator_free(struct invalidator *invalidator);

/* Called when the kernel has forgotten; may reply to a request. */
typedef void (*invalidated_fn)(void *cookie);

/* Pages and attributes of the inode are forgotten, then `fn` is called from the invalidator's thread; at once where there is none.
 * For answers that must not come before that. This thread waits for readers and writers of the inode only, whom other workers
 * serve: nothing else that waits for clients may be queued here. */
void invalidate_then(struct fence *f, struct inode *inode, invalidated_fn fn, void *cookie);

/* From a thread that is no worker. INODE_STALE ends with it. */
void invalidate_now(struct fence *f, struct inode *inode);

/* Soon, pages and attributes of the inode are forgotten. From any thread, under any lock but fence.names. */
void invalidate_soon(struct fence *f, struct inode *inode);
