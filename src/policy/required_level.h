/*
 * The level that each operation needs: one table of operation, level and errno.
 *
 * All code that serves files calls required_level_check() first, and no other code compares levels. A *passage* is a hidden
 * directory that is shown because something visible lies in it: it can be seen and walked through, nothing more.
 */
#pragma once

#include <stdbool.h>

#include "policy/level.h"

enum policy_op {
    /* on something that exists */
    POLICY_OP_LOOKUP,
    POLICY_OP_STAT,
    POLICY_OP_ACCESS,
    POLICY_OP_LIST,
    POLICY_OP_READ,
    POLICY_OP_READLINK,
    POLICY_OP_SEEK,
    POLICY_OP_GETXATTR,
    POLICY_OP_LISTXATTR,
    POLICY_OP_COPY_FROM,
    POLICY_OP_SYNC,
    POLICY_OP_WRITE,
    POLICY_OP_SETATTR,
    POLICY_OP_SETXATTR,
    POLICY_OP_REMOVEXATTR,
    POLICY_OP_FALLOCATE,
    POLICY_OP_COPY_TO,
    POLICY_OP_UNLINK,
    POLICY_OP_RMDIR,
    POLICY_OP_RENAME_FROM,
    POLICY_OP_LINK_FROM,
    /* on a name that will exist afterwards */
    POLICY_OP_MKNOD,
    POLICY_OP_MKDIR,
    POLICY_OP_SYMLINK,
    POLICY_OP_RENAME_TO,
    POLICY_OP_LINK_TO,
    /* on the file system */
    POLICY_OP_STATFS,
    POLICY_OPS,
};

/* A lower-case word, used in counters and denials. */
const char *policy_op_name(enum policy_op op);

/* Returns 0, or the negative errno for the caller of the system call. */
int required_level_check(enum policy_op op, enum level level, bool is_passage);
