#include "policy/need.h"

#include <errno.h>

struct need {
    const char *name;
    enum level level;   /* the least that will do */
    int hidden;         /* errno where the path does not exist for the caller */
    int refused;        /* errno where it is seen but the level is too low */
    bool passage_is_ok; /* also granted on a passage */
};

/*
 * A hidden path answers as if nothing were there: ENOENT for what would have to exist. A name to be created can't say that;
 * it says EACCES whether something hidden is there or not, so O_EXCL tells nothing.
 */
static const struct need needs[NEED_OPS] = {
    [NEED_LOOKUP] = { "lookup", LEVEL_VIEW, ENOENT, EACCES, true },
    [NEED_STAT] = { "stat", LEVEL_VIEW, ENOENT, EACCES, true },
    [NEED_ACCESS] = { "access", LEVEL_VIEW, ENOENT, EACCES, true },
    [NEED_LIST] = { "list", LEVEL_VIEW, ENOENT, EACCES, true },
    [NEED_READ] = { "read", LEVEL_READ, ENOENT, EACCES, false },
    [NEED_READLINK] = { "readlink", LEVEL_READ, ENOENT, EACCES, false },
    [NEED_SEEK] = { "seek", LEVEL_READ, ENOENT, EACCES, false },
    [NEED_GETXATTR] = { "getxattr", LEVEL_READ, ENOENT, EACCES, false },
    [NEED_LISTXATTR] = { "listxattr", LEVEL_READ, ENOENT, EACCES, false },
    [NEED_COPY_FROM] = { "copy-from", LEVEL_READ, ENOENT, EACCES, false },
    [NEED_SYNC] = { "sync", LEVEL_VIEW, ENOENT, EACCES, true },
    [NEED_WRITE] = { "write", LEVEL_WRITE, ENOENT, EACCES, false },
    [NEED_SETATTR] = { "setattr", LEVEL_WRITE, ENOENT, EACCES, false },
    [NEED_SETXATTR] = { "setxattr", LEVEL_WRITE, ENOENT, EACCES, false },
    [NEED_REMOVEXATTR] = { "removexattr", LEVEL_WRITE, ENOENT, EACCES, false },
    [NEED_FALLOCATE] = { "fallocate", LEVEL_WRITE, ENOENT, EACCES, false },
    [NEED_COPY_TO] = { "copy-to", LEVEL_WRITE, ENOENT, EACCES, false },
    [NEED_UNLINK] = { "unlink", LEVEL_WRITE, ENOENT, EACCES, false },
    [NEED_RMDIR] = { "rmdir", LEVEL_WRITE, ENOENT, EACCES, false },
    [NEED_RENAME_FROM] = { "rename-from", LEVEL_WRITE, ENOENT, EACCES, false },
    [NEED_LINK_FROM] = { "link-from", LEVEL_WRITE, ENOENT, EACCES, false },
    [NEED_MKNOD] = { "mknod", LEVEL_WRITE, EACCES, EACCES, false },
    [NEED_MKDIR] = { "mkdir", LEVEL_WRITE, EACCES, EACCES, false },
    [NEED_SYMLINK] = { "symlink", LEVEL_WRITE, EACCES, EACCES, false },
    [NEED_RENAME_TO] = { "rename-to", LEVEL_WRITE, EACCES, EACCES, false },
    [NEED_LINK_TO] = { "link-to", LEVEL_WRITE, EACCES, EACCES, false },
    [NEED_STATFS] = { "statfs", LEVEL_NONE, ENOENT, EACCES, true },
};

const char *need_name(enum need_op op)
{
    return needs[op].name;
}

int need_check(enum need_op op, enum level level, bool is_passage)
{
    const struct need *need = &needs[op];

    if (level >= need->level)
        return 0;
    if (level == LEVEL_NONE && !is_passage)
        return -need->hidden;
    return is_passage && need->passage_is_ok ? 0 : -need->refused;
}
