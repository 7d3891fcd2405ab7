/*
 * Tells a directory from another one that has taken its name.
 *
 * Compares the inode number and the birth time of the inode. A directory keeps both when it is moved, written to or mounted
 * again. Another directory differs in at least one, even if the file system reuses the inode number. If the file system does
 * not report a birth time, the device number is compared, unless it means nothing: after a reboot, or where the kernel invents
 * it for each mount. docs/decisions/0042-which-directory-it-is.md gives the reasons.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct dir_identity {
    uint64_t dev, ino;
    int64_t birth_ns; /* 0: unknown */
    uint64_t boot;    /* hash of the boot id under which `dev` was read; 0: unknown */
};

/* `fd` is an open directory, O_PATH is enough. Returns 0 or -errno. */
int dir_identity_read(int fd, struct dir_identity *ret);

bool dir_identity_is_same(const struct dir_identity *recorded, const struct dir_identity *now);
