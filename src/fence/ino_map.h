/*
 * <delta>/meta/numbers: the inode numbers in the delta that do not follow from a path, because a file was created or renamed.
 * The next mount shows the same ones. With syncs_out (sync_out.h) it keeps numbers after their files went to the base, and the
 * times of directories too.
 */
#pragma once

#include "fence/fence_int.h"

struct ino_map;

/* Reads the existing file. */
int ino_map_open(struct fence *f, struct ino_map **ret_ino_map);
void ino_map_close(struct ino_map *ino_map);

/* Returns the number of what the delta has under the name, while the tree is loaded. One of several names of a file may have no
 * number of its own: it is the one that all of them share. */
uint64_t ino_map_find(struct fence *f, const struct inode *dir, const char *name, bool is_linked);

/* Ends loading: frees what was read, and rewrites a file that is mostly void. */
int ino_map_end_load(struct fence *f);

/* Sets the number of what the delta has under the name; 0: nothing. [the directory's stripe held, no other lock] */
void ino_map_set(struct fence *f, const struct inode *dir, const char *name, uint64_t ino);

/* For tests: the number of pairs from which on the file is rewritten while the mount is in use. */
void ino_map_set_rewrite_min(struct fence *f, uint64_t pairs);

/* The rest is for files that were synced to the base. */

/* Returns true if a number is recorded for the name. */
bool ino_map_keeps(struct fence *f, const struct inode *dir, const char *name);

/* Returns the number of what the base has under a name: the one it had in the delta, or the one that follows from the name.
 * With `for_good`, if another file has that number by now, it gets and records a new one. [fence.names not held] */
uint64_t ino_map_base_ino(struct fence *f, const struct inode *dir, const char *name, bool for_good);

/* Directory mtime, recorded because the base's own mtime would reveal changes of hidden children. 0: none recorded. */
void ino_map_keep_time(struct fence *f, uint64_t dir_ino, int64_t mtime_ns);
int64_t ino_map_time_of(struct fence *f, uint64_t dir_ino);
