/*
 * A directory to which a caller is confined, and opening paths inside it.
 *
 * Symlinks, also absolute ones, are followed as long as they stay inside: each link is read and its target resolved as a path.
 * Nothing outside is ever looked at, so the answers do not reveal what exists there. An attacker who swaps directories for
 * links during the call can only choose among files inside.
 */
#pragma once

#include <stdbool.h>

struct root_dir {
    int fd;             /* owned */
    char *given, *real; /* owned, clean: the two names under which the root may appear at the start of a path */
};

#define ROOT_DIR_NONE ((struct root_dir){ .fd = -1 })

/* Opens the root with path_open_trusted(), because a confined caller may own the directory that contains it. Returns 0 or
 * -errno. */
int root_dir_open(const char *path, struct root_dir *ret);
void root_dir_done(struct root_dir *root);

/* Opens a clean, absolute path. Returns the descriptor or -errno; -EXDEV if the path is outside or leads out. */
int root_dir_reach(const struct root_dir *root, const char *path, int flags);

/* Like root_dir_reach() for any of several roots, a list that ends with NULL; -EPERM if the path is in none. With `roots` NULL
 * every path is allowed and the kernel follows links. */
int root_dirs_reach(const char *const *roots, const char *path, int flags);
