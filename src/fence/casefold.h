/*
 * Checks that a name is the exact name of what it leads to. On a file system that folds case or normalises names a file answers
 * to more names than its own. Rules are about exact names, so every other spelling would be a way around them. There, a name
 * that the listing does not contain byte for byte does not exist.
 *
 * Folding is a property of single directories (ext4, f2fs, tmpfs) or of what is mounted on them, so it is decided for each
 * directory of the base, once for each descriptor of it. Where names are certainly compared as bytes, the check costs nothing
 * from then on.
 */
#pragma once

#include "fence/fence_int.h"

/* Call after something was found in the directory under that name. Returns 0 if the name is exact, else -ENOENT, also if the
 * directory may fold and must not be read. Returns another -errno if that cannot be determined now. */
int casefold_check(struct fence *f, struct handle *dir, const char *name);

/* The same for each component of a relative path beneath `dirfd`. Nothing is cached. */
int casefold_check_path(int dirfd, const char *path);

/* Names came or went in the base, so an empty directory may have begun to fold. The next check decides again. */
void casefold_recheck(struct fence *f, struct inode *dir);

/* For handle.c; NULL is fine. */
void casefold_free(struct casefold *casefold);
