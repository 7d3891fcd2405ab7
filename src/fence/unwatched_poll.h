/*
 * A thread that visits what the kernel caches of unwatched directories (unwatched.h) without asking again: listings, and pages
 * of files. It sleeps while there is none.
 */
#pragma once

#include "fence/fence_int.h"

struct unwatched_poll;

struct unwatched_poll *unwatched_poll_new(struct fence *f);
int unwatched_poll_start(struct unwatched_poll *poll);
void unwatched_poll_stop(struct unwatched_poll *poll);
void unwatched_poll_free(struct unwatched_poll *poll);

/* Visits the inode in a second. A directory gets a watch if one is available now, and its listing is dropped. A file's pages
 * are dropped if it changed, or after some rounds. INODE_POLLED is set until then. */
void unwatched_poll_add(struct unwatched_poll *poll, struct inode *inode);
