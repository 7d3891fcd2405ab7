/*
 * A directory that somebody is confined to, and paths that lead to something in it.
 *
 * Links are followed as long as they stay in it, also absolute ones: they are read, and their text is taken for a path. Nothing outside is
 * looked at, so that nobody can tell from an answer whether something is there; and who exchanges directories for links meanwhile can only
 * choose among what is inside.
 */
#pragma once

#include <stdbool.h>

struct root_dir {
    int fd;             /* owned */
    char *given, *real; /* owned, clean: what a path to something in it may begin with */
};

#define ROOT_DIR_NONE ((struct root_dir){ .fd = -1 })

/* On the way to it only links are followed that nobody but root and ourselves can have made (path_open_trusted): who is confined to it may
 * own the directory that it is in. 0 or -errno. */
int root_dir_open(const char *path, struct root_dir *ret);
void root_dir_done(struct root_dir *root);

/* Opens a clean, absolute path. The descriptor, or -errno; -EXDEV: it is not in there, or leads out. */
int root_dir_reach(const struct root_dir *root, const char *path, int flags);

/* The same in any of several, whose paths end with NULL; -EPERM: in none. Without roots (NULL) anything can be reached, and links are
 * followed by the kernel. */
int root_dirs_reach(const char *const *roots, const char *path, int flags);
