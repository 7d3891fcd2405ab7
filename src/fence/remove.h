/*
 * Parts of removing a name that renaming over it needs too.
 */
#pragma once

#include "fence/fence_int.h"

/* Call before the delta's file of that name is removed: an open file is kept. [the directory's stripe held] */
int remove_keep_open(struct fence *f, struct inode *inode, int dirfd, const char *name);

/* The same for a regular file of the delta that loses its last name. -errno: its content will be lost. */
int remove_keep_content(struct fence *f, struct inode *inode, int dirfd, const char *name);

/* Call before a file of a live base is covered: saves and logs a copy of it. Does nothing for others. */
int remove_keep_covered(struct fence *f, struct inode *inode);

int remove_delta_dir(struct fence *f, int dirfd, const char *name);

/* Call after that: if the file has no name any more, its bytes are shown as free from now on. */
void remove_count_dead(struct fence *f, struct inode *inode);

/* The name was removed from the delta: updates memory. */
void remove_from_tree(struct fence *f, struct inode *dir, const char *name, bool leaves_marker);
