/*
 * Whether a name is the very name of what it leads to. On a file system that folds case or normalises names, a file answers to more
 * names than its own: rules are about exact names, so each further one would be a way around them. There, what a listing does not show
 * byte for byte does not exist.
 *
 * Folding is a matter of single directories (ext4, f2fs, tmpfs) or of what is mounted on them, so it is decided for each directory of the
 * base, once for each descriptor of it. Where it is certain that names are compared as bytes, the answer costs nothing from then on.
 */
#pragma once

#include "fence/fence_int.h"

/* Something was found in the directory under that name: 0 if the name is its own, else -ENOENT, also where the directory may fold and
 * must not be read. Another -errno when it cannot be told just now. */
int casefold_check(struct fence *f, struct handle *dir, const char *name);

/* The same for every component of a relative path beneath `dirfd`, with nothing remembered. */
int casefold_check_path(int dirfd, const char *path);

/* Names came or went in the base: an empty directory may have begun to fold. The next to ask decides anew. */
void casefold_recheck(struct fence *f, struct inode *dir);

/* What a handle keeps; NULL is fine. */
void casefold_free(struct casefold *casefold);
