/*
 * Bringing something of the base into the delta before it is changed. To the sandbox nothing happens: same number, content,
 * mode, times, user xattrs, holes. It is there whole or not at all.
 */
#pragma once

#include "fence/fence_int.h"

/* The directory and those above it exist in the delta afterwards. */
int copyup_dir(struct fence *f, struct inode *dir);

/* A file of any kind. At most `keep_bytes` of the content are copied: what is truncated next need not be. */
int copyup_file(struct fence *f, struct inode *inode, int64_t keep_bytes);

/* A directory with everything in it; nothing of the base shows through afterwards, so it may be moved. */
int copyup_tree(struct fence *f, struct inode *dir);

/* Up to `most` bytes from one descriptor to the other, which is empty: by reference where the file system can, holes stay. */
int copyup_content(int from, int to, int64_t most);
