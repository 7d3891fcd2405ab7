/*
 * The other data path: files of level `read` that the delta does not cover are read by the kernel straight from the base, one
 * page cache for all who share it. Every open is a message then. Needs Linux 6.9 and CAP_SYS_ADMIN.
 */
#pragma once

#include "fence/fence_int.h"

struct passthrough;

/* `device` is the mount's. -EOPNOTSUPP, -EPERM: not here. */
int passthrough_new(struct fence *f, int device, struct passthrough **ret_passthrough);
void passthrough_free(struct passthrough *passthrough);

/* An inode is being opened. Returns the id of its backing file, 0 for an open through our page cache, or -errno. Both kinds never
 * meet in one inode: as long as one is open, others are of that kind or refused. */
int passthrough_open(struct fence *f, struct inode *inode, bool for_writing);
void passthrough_release(struct fence *f, struct inode *inode);
