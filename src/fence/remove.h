/*
 * Parts of taking a name away that renaming over it needs too.
 */
#pragma once

#include "fence/fence_int.h"

/* Before the delta's file of that name goes: whoever has it open keeps it. The directory's stripe is held. */
int remove_keep_open(struct fence *f, struct inode *inode, int dirfd, const char *name);

/* The same for a regular file of the delta of which it is known that its last name goes. -errno: nothing of it will be left. */
int remove_keep_content(struct fence *f, struct inode *inode, int dirfd, const char *name);

/* A file of a live base is about to be covered: a copy of it is kept and recorded. Nothing to do for others. */
int remove_keep_covered(struct fence *f, struct inode *inode);

int remove_delta_dir(struct fence *f, int dirfd, const char *name);

/* After that: if the file has no name any more, its bytes are shown as free from now on. */
void remove_count_dead(struct fence *f, struct inode *inode);

/* The name is gone from the delta; memory follows. */
void remove_from_tree(struct fence *f, struct inode *dir, const char *name, bool leaves_marker);
