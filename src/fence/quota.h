/*
 * How much the delta may hold, in bytes as the backing file system counts them (holes are free) and in names.
 */
#pragma once

#include "fence/fence_int.h"

void quota_init(struct quota *quota, uint64_t bytes_max, uint64_t inodes_max);
void quota_done(struct quota *quota);

/* What is there already, from loading the delta: never refused. */
void quota_add(struct quota *quota, int64_t bytes, int64_t inodes);

/* -ENOSPC when it would be too much. */
int quota_reserve(struct quota *quota, uint64_t bytes, uint64_t inodes);
void quota_release(struct quota *quota, uint64_t bytes, uint64_t inodes);

/* What a file counts for: its content in whole blocks, less holes. How a file system stores it (blocks for its own tables, space
 * reserved while writing) does not show, space beyond the end does when it is more than a trifle. */
uint64_t quota_bytes_of(const struct stat *st);

/* What a file has grown by since `before`, or shrunk, in place of what was taken for it. The file's stripe is held, since `before` too. */
void quota_add_growth(struct fence *f, struct inode *inode, int fd, const struct stat *before, uint64_t taken);

/* A file that counts already has no name any more, or is gone for good. When the kernel forgets such a file nobody can foresee, so
 * what is shown leaves them out, while the limit counts them. */
void quota_add_dead(struct quota *quota, int64_t bytes);

/* After -ENOSPC, without locks: hears what the kernel has forgotten by now. False: no file without a name holds anything, so trying
 * again is useless. */
bool quota_reclaim_dead(struct fence *f);

bool quota_limits_bytes(const struct quota *quota);

/* Blocks, free blocks, names, free names, for statfs; a quota without limits shows a round number. */
void quota_statfs(struct quota *quota, uint64_t block_size, uint64_t ret[4]);
