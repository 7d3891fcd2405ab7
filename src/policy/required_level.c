#include "policy/required_level.h"

#include <errno.h>

struct required_level {
    const char *name;
    enum level level;   /* the lowest sufficient level */
    int hidden;         /* errno if the path is hidden from the caller */
    int refused;        /* errno if the path is visible but the level is too low */
    bool passage_is_ok; /* also allowed on a passage */
};

/*
 * A hidden path behaves as if nothing were there: operations on an existing path return ENOENT. Creating a name cannot return
 * that; it returns EACCES whether or not something hidden is there, so O_EXCL reveals nothing.
 */
static const struct required_level required_levels[POLICY_OPS] = {
    [POLICY_OP_LOOKUP] = { "lookup", LEVEL_VIEW, ENOENT, EACCES, true },
    [POLICY_OP_STAT] = { "stat", LEVEL_VIEW, ENOENT, EACCES, true },
    [POLICY_OP_ACCESS] = { "access", LEVEL_VIEW, ENOENT, EACCES, true },
    [POLICY_OP_LIST] = { "list", LEVEL_VIEW, ENOENT, EACCES, true },
    [POLICY_OP_READ] = { "read", LEVEL_READ, ENOENT, EACCES, false },
    [POLICY_OP_READLINK] = { "readlink", LEVEL_READ, ENOENT, EACCES, false },
    [POLICY_OP_SEEK] = { "seek", LEVEL_READ, ENOENT, EACCES, false },
    [POLICY_OP_GETXATTR] = { "getxattr", LEVEL_READ, ENOENT, EACCES, false },
    [POLICY_OP_LISTXATTR] = { "listxattr", LEVEL_READ, ENOENT, EACCES, false },
    [POLICY_OP_COPY_FROM] = { "copy-from", LEVEL_READ, ENOENT, EACCES, false },
    [POLICY_OP_SYNC] = { "sync", LEVEL_VIEW, ENOENT, EACCES, true },
    [POLICY_OP_WRITE] = { "write", LEVEL_WRITE, ENOENT, EACCES, false },
    [POLICY_OP_SETATTR] = { "setattr", LEVEL_WRITE, ENOENT, EACCES, false },
    [POLICY_OP_SETXATTR] = { "setxattr", LEVEL_WRITE, ENOENT, EACCES, false },
    [POLICY_OP_REMOVEXATTR] = { "removexattr", LEVEL_WRITE, ENOENT, EACCES, false },
    [POLICY_OP_FALLOCATE] = { "fallocate", LEVEL_WRITE, ENOENT, EACCES, false },
    [POLICY_OP_COPY_TO] = { "copy-to", LEVEL_WRITE, ENOENT, EACCES, false },
    [POLICY_OP_UNLINK] = { "unlink", LEVEL_WRITE, ENOENT, EACCES, false },
    [POLICY_OP_RMDIR] = { "rmdir", LEVEL_WRITE, ENOENT, EACCES, false },
    [POLICY_OP_RENAME_FROM] = { "rename-from", LEVEL_WRITE, ENOENT, EACCES, false },
    [POLICY_OP_LINK_FROM] = { "link-from", LEVEL_WRITE, ENOENT, EACCES, false },
    [POLICY_OP_MKNOD] = { "mknod", LEVEL_WRITE, EACCES, EACCES, false },
    [POLICY_OP_MKDIR] = { "mkdir", LEVEL_WRITE, EACCES, EACCES, false },
    [POLICY_OP_SYMLINK] = { "symlink", LEVEL_WRITE, EACCES, EACCES, false },
    [POLICY_OP_RENAME_TO] = { "rename-to", LEVEL_WRITE, EACCES, EACCES, false },
    [POLICY_OP_LINK_TO] = { "link-to", LEVEL_WRITE, EACCES, EACCES, false },
    [POLICY_OP_STATFS] = { "statfs", LEVEL_NONE, ENOENT, EACCES, true },
};

const char *policy_op_name(enum policy_op op)
{
    return required_levels[op].name;
}

int required_level_check(enum policy_op op, enum level level, bool is_passage)
{
    const struct required_level *required = &required_levels[op];

    if (level >= required->level)
        return 0;
    if (level == LEVEL_NONE && !is_passage)
        return -required->hidden;
    return is_passage && required->passage_is_ok ? 0 : -required->refused;
}
