/*
 * Extended attributes: only "user." ones exist inside, and of those not our own ("user.agentfense.").
 */
#pragma once

#include "fence/fence_int.h"

bool xattr_is_shown(const char *name);

/* Copies the shown ones; what can't be copied is left out. */
void xattr_copy(int from, int to);
void xattr_copy_dir(struct fence *f, struct inode *base_dir, int to);

/* Leaves only shown names in a list as listxattr(2) gives it. Returns the new length. */
size_t xattr_filter(char *list, size_t len);
