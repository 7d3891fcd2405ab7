/*
 * From a name in a directory to the inode it stands for: from memory, else from the delta where memory says it has one, else
 * from the base.
 */
#pragma once

#include "fence/fence_int.h"

/* `match` is where the name stands, as guard.c gave it. On success a reference of ours, and its attributes as shown (`ret_st`
 * may be NULL). With `only_as_passage` the name is hidden: it must be a directory with something visible in it. -ENOENT. */
int resolve_name(struct fence *f, struct inode *dir, const char *name, struct match_state *match, bool only_as_passage,
                 struct inode **ret_inode, struct stat *ret_st);

/* The flags of a directory that the delta has under that name: INODE_BASE too when the base has one that shows through. It is
 * `ret_base` then. */
int resolve_merged(struct fence *f, struct inode *parent, const char *name, struct stat *ret_base);
