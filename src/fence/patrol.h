/*
 * A thread that looks after what the kernel keeps of blind directories (blind.h) without asking: listings, and pages of files. Has
 * nothing to do, and does nothing, while nobody uses them.
 */
#pragma once

#include "fence/fence_int.h"

struct patrol;

struct patrol *patrol_new(struct fence *f);
int patrol_start(struct patrol *patrol);
void patrol_stop(struct patrol *patrol);
void patrol_free(struct patrol *patrol);

/* Comes by in a second: a directory gets a watch if there is one now, and its listing is forgotten; a file's pages are forgotten if
 * it changed, or at last. INODE_PATROLLED until then. */
void patrol_charge(struct patrol *patrol, struct inode *inode);
