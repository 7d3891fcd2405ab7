/*
 * Copies something from the base into the delta before it is changed. Nothing changes for the sandbox: same number, content,
 * mode, times, user xattrs and holes. The copy appears complete or not at all.
 */
#pragma once

#include "fence/fence_int.h"

/* Makes the directory and those above it exist in the delta. */
int copyup_dir(struct fence *f, struct inode *dir);

/* Copies a file of any kind, at most `keep_bytes` of its content: what is about to be truncated need not be copied. */
int copyup_file(struct fence *f, struct inode *inode, int64_t keep_bytes);

/* Copies a directory with everything in it. Afterwards nothing of the base shows through, so it may be moved. */
int copyup_tree(struct fence *f, struct inode *dir);

/* Copies up to `most` bytes to an empty file, by reflink where the file system supports it. Holes stay holes. */
int copyup_content(int from, int to, int64_t most);

/* Returns 1 if two files have the same content, 0 if not, or -errno. */
int copyup_same_content(int a, int b);
