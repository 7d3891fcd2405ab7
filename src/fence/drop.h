/*
 * Taking things out of a delta again, on disk: what lies at a path and beneath it goes, so that the base shows there, or a file is
 * replaced by another. For a fence that is held (hold.h) and for a delta that nobody uses.
 *
 * A note, <delta>/meta/drop, is durable before the first step and gone, durably, after the last: whoever is killed in between is
 * finished by drop_settle(). Repeating a step does no harm, and between two of them the tree shows each path before or after.
 */
#pragma once

#include "fence/fence_int.h"
#include "fence/hold.h"

#define DROPS_MAX 65536
#define DROP_PATH_MAX ((NAME_MAX + 1) * DEPTH_MAX) /* no fence makes a longer one */
#define DROP_NONE SIZE_MAX
#define DROP_SYNC_EACH_MAX 64 /* more paths than this are synced all at once */

/* The directories, borrowed. base_fd may be -1: then nothing is behind the delta. */
struct drop_place {
    int base_fd, data_fd, work_fd, meta_fd;
};

struct drop {
    char *path;    /* owned; no leading slash, clean, not empty */
    bool replaces; /* the file staged under its index comes to the path */
};

struct drop_list {
    struct drop *items; /* owned */
    size_t count, cap;
};

void drop_list_done(struct drop_list *list);

/* Checks, and spells out what "/" means, and a directory that only rules asked for (meta/roots), which stays; content to come is copied to meta/replace, durably. -EINVAL for a path that is not absolute
 * and clean, or is a marker's; -ENOENT for a replacement where the delta has no regular file. */
int drop_list_make(const struct drop_place *at, const struct fence_drop *drops, size_t count, struct drop_list *ret,
                   struct err *err);

int drop_begin(const struct drop_place *at, const struct drop_list *list);
int drop_end(const struct drop_place *at, const struct drop_list *list);

/* Which directories on the way became others, by the lengths of their paths: the first one that was brought back or opened to the base,
 * and the first one that went because the base has the same. */
struct drop_trace {
    size_t opened_from, gone_from;
};

/* One of the list. What the delta has not is no error. */
int drop_perform(const struct drop_place *at, const struct drop_list *list, size_t index, struct drop_trace *ret);

/* Before a delta is loaded. */
int drop_settle(const struct drop_place *at);

/* Lines for the delta's diary: from here on nothing counts that was told of these paths. */
int drop_tell(int diary_fd, const char *const *paths, size_t count);
