/*
 * Parts of taking a name away that renaming over it needs too.
 */
#pragma once

#include "fence/fence_int.h"

/* Before the delta's file of that name goes: whoever has it open keeps it. The directory's stripe is held. */
int remove_keep_open(struct fence *f, struct inode *inode, int dirfd, const char *name);

/* A file of a live base is about to be covered: a copy of it is kept and recorded. Nothing to do for others. */
int remove_keep_covered(struct fence *f, struct inode *inode);

int remove_delta_dir(struct fence *f, int dirfd, const char *name);

/* After that: if the file has no name any more, its bytes are shown as free from now on. */
void remove_count_dead(struct fence *f, struct inode *inode);

/* The name is gone from the delta; memory follows. */
void remove_from_tree(struct fence *f, struct inode *dir, const char *name, bool leaves_marker);

/* How many names the delta has below a directory, markers included: what goes with it. */
int64_t remove_count_below(struct fence *f, struct inode *dir);
