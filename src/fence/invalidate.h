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

/* Soon, pages and attributes of the inode are forgotten. From any thread, under any lock but fence.names. */
void invalidate_soon(struct fence *f, struct inode *inode);
