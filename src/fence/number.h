/*
 * <delta>/meta/numbers: the inode numbers in the delta that do not follow from a path, because something was created or renamed.
 * The next mount shows the same ones.
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
