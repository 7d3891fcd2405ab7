/*
 * What tells a directory from another one that has its name later.
 *
 * The inode number, and when the inode was made: a directory that is moved, written to or mounted again keeps both, and another one has
 * others, also where the file system gives the number out a second time. Where the file system does not say when it was made, the device
 * is compared instead, as far as its number means something: not after the machine was started anew, and not where the kernel makes the
 * number up for each mount. docs/decisions/0042-which-directory-it-is.md tells why.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct dir_identity {
    uint64_t dev, ino;
    int64_t birth_ns; /* 0: not known */
    uint64_t boot;    /* which start of the machine `dev` is of; 0: not known */
};

/* Of an open directory, also one open as O_PATH. 0 or -errno. */
int dir_identity_read(int fd, struct dir_identity *ret);

bool dir_identity_is_same(const struct dir_identity *recorded, const struct dir_identity *now);
