/*
 * <delta>/meta/numbers: the inode numbers in the delta that do not follow from a path, because something was created or renamed.
 * The next mount shows the same ones. Where changes are handed over to the base (handover.h) numbers are kept on from there, and
 * the times of directories with them.
 */
#pragma once

#include "fence/fence_int.h"

struct numbers;

/* Reads what is there. */
int numbers_open(struct fence *f, struct numbers **ret_numbers);
void numbers_close(struct numbers *numbers);

/* The number of what the delta has under the name, while the tree is loaded. One of several names of a file may have none of its
 * own: then it is the one that all of them share. */
uint64_t numbers_find(struct fence *f, const struct inode *dir, const char *name, bool is_linked);

/* What was read is not needed any more; of a file with much that is void the rest is written anew. */
int numbers_loaded(struct fence *f);

/* The delta has something under the name now, of that number; 0: nothing any more. The directory's stripe is held, no other lock. */
void numbers_note(struct fence *f, const struct inode *dir, const char *name, uint64_t ino);

/* For the tests: with how many pairs a log is long, and written anew while the mount is in use. */
void numbers_set_long(struct fence *f, uint64_t pairs);

/* The rest is for what was handed over to the base. */

/* Whether a number is kept for the name. */
bool numbers_keep(struct fence *f, const struct inode *dir, const char *name);

/* The number of what the base has under a name: the one it had in the delta, or the one that follows from the name. `for_good`: if
 * that is another's by now it gets a new one, which is kept; needs fence.names free. */
uint64_t numbers_of_base(struct fence *f, const struct inode *dir, const char *name, bool for_good);

/* When a directory was last changed: as the base has it, nobody can tell from it. 0: not kept. */
void numbers_keep_time(struct fence *f, uint64_t dir_ino, int64_t mtime_ns);
int64_t numbers_time_of(struct fence *f, uint64_t dir_ino);
