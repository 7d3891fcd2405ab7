/*
 * Extended attributes: the sandbox has only "user." ones, without our own ("user.agentfense.").
 */
#pragma once

#include "fence/fence_int.h"

bool xattr_is_shown(const char *name);

/* Copies the shown ones; failures are ignored. */
void xattr_copy(int from, int to);
void xattr_copy_dir(struct fence *f, struct inode *base_dir, int to);

/* Returns true if the file has any that is shown. */
bool xattr_any(int fd);

/* Removes all but shown names from a list of listxattr(2). Returns the new length. */
size_t xattr_filter(char *list, size_t len);
