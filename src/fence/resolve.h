/*
 * Finds the inode of a name in a directory: in memory, else in the delta if memory says that it has the name, else in the base.
 */
#pragma once

#include "fence/fence_int.h"

/* `match` is the state of the name, from guard.c. Returns a reference of ours and the attributes as shown (`ret_st` may be
 * NULL). With `only_as_passage` the name is hidden: it must be a directory with something visible in it. -ENOENT. */
int resolve_name(struct fence *f, struct inode *dir, const char *name, struct match_state *match, bool only_as_passage,
                 struct inode **ret_inode, struct stat *ret_st);

/* Returns the flags of a directory that the delta has under that name: with INODE_BASE if the base has one that shows through,
 * which is then `ret_base`. */
int resolve_merged(struct fence *f, struct inode *parent, const char *name, struct stat *ret_base);
