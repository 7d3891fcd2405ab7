/*
 * Between libfuse and the operations: unpacks a request, passes the gate, calls the body, replies exactly once. No other file
 * calls fuse_reply_*.
 */
#pragma once

#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 14)
#include <fuse3/fuse_lowlevel.h>

#include "fence/fence_int.h"

extern const struct fuse_lowlevel_ops reply_ops;

/* Frees what an ending worker kept between requests. */
void reply_free_buffer(void);

/* The node id of an inode. */
fuse_ino_t reply_node_of(const struct fence *f, const struct inode *inode);
