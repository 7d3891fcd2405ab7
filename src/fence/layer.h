/*
 * The two directories behind the fence, and how a file in them is reached: by the descriptor of its directory and its one name,
 * never by a path from outside, never through a symlink.
 */
#pragma once

#include "fence/fence_int.h"

/* Returns a descriptor for handle.c, or -errno. */
int layer_open(struct fence *f, struct inode *inode, enum layer_kind layer);

/* The name in work that keeps the content of a file without a name, when descriptors are scarce. */
void layer_orphan_name(const struct inode *inode, char out[32]);

/* lstat() of a name in a directory. -ENOENT. In the base only names exist that a listing shows byte for byte. */
int layer_stat(struct fence *f, struct inode *dir, enum layer_kind layer, const char *name, struct stat *ret_st);

/* Returns 1 if the base has something under that name that would show if the delta did not cover it, 0 if not, or -errno. */
int layer_base_has(struct fence *f, struct inode *dir, const char *name, struct stat *ret_st);

/* Stats a path of the base, "a/b/c", under the same condition. Returns false if there is nothing, or an error. */
bool layer_stat_base(struct fence *f, const char *path, struct stat *ret_st);

/* lstat() of an inode in the layer that holds its content. */
int layer_stat_inode(struct fence *f, struct inode *inode, struct stat *ret_st);

/* Returns a descriptor with a position of its own, for reading a directory. */
int layer_open_listing(struct fence *f, struct inode *dir, enum layer_kind layer);

/* Lock the stripes of one or two directories; dir_unlock() in any order. */
void dir_lock(struct fence *f, const struct inode *dir);
void dir_unlock(struct fence *f, const struct inode *dir);
void dir_lock_two(struct fence *f, const struct inode *a, const struct inode *b);
void dir_unlock_two(struct fence *f, const struct inode *a, const struct inode *b);
