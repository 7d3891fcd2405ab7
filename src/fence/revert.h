/*
 * Takes paths out of a delta on disk: what lies at a path and beneath it is removed, so that the base shows there, or a file is
 * replaced by another. For a quiesced fence (quiesce.h) and for a delta that no fence uses.
 *
 * An intent file, <delta>/meta/drop, is durable before the first step and durably removed after the last; revert_recover()
 * completes it after a kill. Repeating a step does no harm, and between two of them the tree shows each path before or after.
 */
#pragma once

#include "fence/fence_int.h"
#include "fence/quiesce.h"

#define REVERTS_MAX 65536
#define REVERT_PATH_MAX ((NAME_MAX + 1) * DEPTH_MAX) /* no fence makes a longer one */
#define REVERT_NONE SIZE_MAX
#define REVERT_SYNC_EACH_MAX 64 /* more paths than this are synced all at once */

/* The directories, borrowed. base_fd may be -1: there is no base. */
struct revert_dirs {
    int base_fd, data_fd, work_fd, meta_fd;
};

struct revert {
    char *path;    /* owned; no leading slash, clean, not empty */
    bool replaces; /* the file staged under its index replaces that at the path */
};

struct revert_list {
    struct revert *items; /* owned */
    size_t count, cap;
};

void revert_list_done(struct revert_list *list);

/* Checks the paths. Expands "/" and directories that only rules asked for (meta/roots), which stay themselves. Copies
 * replacements to meta/replace, durably. -EINVAL for a path that is not absolute and clean, or is a marker's; -ENOENT for a
 * replacement where the delta has no regular file. */
int revert_list_make(const struct revert_dirs *at, const struct fence_revert *reverts, size_t count, struct revert_list *ret,
                     struct err *err);

int revert_begin(const struct revert_dirs *at, const struct revert_list *list);
int revert_end(const struct revert_dirs *at, const struct revert_list *list);

/* Which directories above a path changed, by the lengths of their paths: the first one that was made again or opened to the
 * base, and the first one that was removed because the base has the same. */
struct revert_trace {
    size_t opened_from, removed_from;
};

/* Reverts one path of the list. A path that is not in the delta is no error. */
int revert_perform(const struct revert_dirs *at, const struct revert_list *list, size_t index, struct revert_trace *ret);

/* Completes an earlier revert. Call before a delta is loaded. */
int revert_recover(const struct revert_dirs *at);

/* Writes lines to the delta's change log: earlier lines about these paths do not count. */
int revert_log(int log_fd, const char *const *paths, size_t count);
