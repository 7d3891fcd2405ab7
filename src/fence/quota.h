/*
 * Limits the size of the delta, in bytes as the backing file system counts them (holes are free) and in names.
 */
#pragma once

#include "fence/fence_int.h"

void quota_init(struct quota *quota, uint64_t bytes_max, uint64_t inodes_max);
void quota_done(struct quota *quota);

/* Counts what the delta has already; never refused. */
void quota_add(struct quota *quota, int64_t bytes, int64_t inodes);

/* -ENOSPC if it would exceed the limit. */
int quota_reserve(struct quota *quota, uint64_t bytes, uint64_t inodes);
void quota_release(struct quota *quota, uint64_t bytes, uint64_t inodes);

/* The bytes that a file counts for: its content in whole blocks, less holes. How a file system stores it (metadata blocks,
 * space reserved while writing) does not count; space beyond the end counts if it is more than TRIFLE. */
uint64_t quota_bytes_of(const struct stat *st);

/* Counts a file's growth since `before`, in place of the `taken` bytes that were reserved for it. [the file's stripe held since
 * `before`] */
void quota_add_growth(struct fence *f, struct inode *inode, int fd, const struct stat *before, uint64_t taken);

/* Counts the bytes of a file that lost its last name, negative if it is gone for good. Nobody can foresee when the kernel
 * forgets such a file, so statfs leaves them out, while the limit includes them. */
void quota_add_dead(struct quota *quota, int64_t bytes);

/* After -ENOSPC, without locks: processes pending FORGETs. Returns false if no file without a name holds anything, so trying
 * again is useless. */
bool quota_reclaim_dead(struct fence *f);

bool quota_limits_bytes(const struct quota *quota);

/* Blocks, free blocks, names and free names for statfs; a quota without limits shows a round number. */
void quota_statfs(struct quota *quota, uint64_t block_size, uint64_t ret[4]);
