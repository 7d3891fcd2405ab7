/*
 * <delta>/meta/numbers: the inode numbers in the delta that do not follow from a path, because something was created or renamed.
 * The next mount shows the same ones. Where changes are handed over to the base (sync_out.h) numbers are kept on from there, and
 * the times of directories with them.
 */
#pragma once

#include "fence/fence_int.h"

struct ino_map;

/* Reads what is there. */
int ino_map_open(struct fence *f, struct ino_map **ret_ino_map);
void ino_map_close(struct ino_map *ino_map);

/* The number of what the delta has under the name, while the tree is loaded. One of several names of a file may have none of its
 * own: then it is the one that all of them share. */
uint64_t ino_map_find(struct fence *f, const struct inode *dir, const char *name, bool is_linked);

/* What was read is not needed any more; of a file with much that is void the rest is written anew. */
int ino_map_end_load(struct fence *f);

/* The delta has something under the name now, of that number; 0: nothing any more. The directory's stripe is held, no other lock. */
void ino_map_set(struct fence *f, const struct inode *dir, const char *name, uint64_t ino);

/* For the tests: with how many pairs a log is long, and written anew while the mount is in use. */
void ino_map_set_rewrite_min(struct fence *f, uint64_t pairs);

/* The rest is for what was handed over to the base. */

/* Whether a number is kept for the name. */
bool ino_map_keeps(struct fence *f, const struct inode *dir, const char *name);

/* The number of what the base has under a name: the one it had in the delta, or the one that follows from the name. `for_good`: if
 * that is another's by now it gets a new one, which is kept; needs fence.names free. */
uint64_t ino_map_base_ino(struct fence *f, const struct inode *dir, const char *name, bool for_good);

/* When a directory was last changed: as the base has it, nobody can tell from it. 0: not kept. */
void ino_map_keep_time(struct fence *f, uint64_t dir_ino, int64_t mtime_ns);
int64_t ino_map_time_of(struct fence *f, uint64_t dir_ino);
