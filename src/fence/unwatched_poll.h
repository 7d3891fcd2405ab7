/*
 * A thread that looks after what the kernel keeps of blind directories (unwatched.h) without asking: listings, and pages of files. Has
 * nothing to do, and does nothing, while nobody uses them.
 */
#pragma once

#include "fence/fence_int.h"

struct unwatched_poll;

struct unwatched_poll *unwatched_poll_new(struct fence *f);
int unwatched_poll_start(struct unwatched_poll *poll);
void unwatched_poll_stop(struct unwatched_poll *poll);
void unwatched_poll_free(struct unwatched_poll *poll);

/* Comes by in a second: a directory gets a watch if there is one now, and its listing is forgotten; a file's pages are forgotten if
 * it changed, or at last. INODE_POLLED until then. */
void unwatched_poll_add(struct unwatched_poll *poll, struct inode *inode);
