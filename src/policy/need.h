/*
 * What an operation needs: the one table of operation -> level -> errno when refused.
 *
 * Whoever serves files asks need_check() before it does anything; nobody else compares levels. A *passage* is a hidden
 * directory that is shown because something visible lies in it: it can be seen and walked through, nothing more.
 */
#pragma once

#include <stdbool.h>

#include "policy/level.h"

enum need_op {
    /* on what exists */
    NEED_LOOKUP,
    NEED_STAT,
    NEED_ACCESS,
    NEED_LIST,
    NEED_READ,
    NEED_READLINK,
    NEED_SEEK,
    NEED_GETXATTR,
    NEED_LISTXATTR,
    NEED_COPY_FROM,
    NEED_SYNC,
    NEED_WRITE,
    NEED_SETATTR,
    NEED_SETXATTR,
    NEED_REMOVEXATTR,
    NEED_FALLOCATE,
    NEED_COPY_TO,
    NEED_UNLINK,
    NEED_RMDIR,
    NEED_RENAME_FROM,
    NEED_LINK_FROM,
    /* on a name that would be there afterwards */
    NEED_MKNOD,
    NEED_MKDIR,
    NEED_SYMLINK,
    NEED_RENAME_TO,
    NEED_LINK_TO,
    /* on the whole */
    NEED_STATFS,
    NEED_OPS,
};

/* A lower-case word, as counters and denials name it. */
const char *need_name(enum need_op op);

/* 0, or the negative errno the caller of the system call gets. */
int need_check(enum need_op op, enum level level, bool is_passage);
