/*
 * The passthrough data path: the kernel reads files of level `read` that the delta does not cover straight from the base, with
 * one page cache for all sandboxes. Every open is then a message. Needs Linux 6.9 and CAP_SYS_ADMIN.
 */
#pragma once

#include "fence/fence_int.h"

struct passthrough;

/* `device` is that of the mount. -EOPNOTSUPP, -EPERM: not possible here. */
int passthrough_new(struct fence *f, int device, struct passthrough **ret_passthrough);
void passthrough_free(struct passthrough *passthrough);

/* Opens an inode. Returns the id of its backing file, 0 for an open through our page cache, or -errno. An inode is never open
 * in both ways: while one open lasts, others are of the same kind or refused. */
int passthrough_open(struct fence *f, struct inode *inode, bool for_writing);
void passthrough_release(struct fence *f, struct inode *inode);
