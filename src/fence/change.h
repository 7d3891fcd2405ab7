/*
 * What a delta changes, path by path, found by walking it beside its base. Works on a delta that no fence uses, and as a
 * snapshot on one in use.
 */
#pragma once

#include "fence/fence.h"

enum change_kind {
    CHANGE_ADDED,
    CHANGE_MODIFIED, /* content, link target or kind */
    CHANGE_MODE,     /* permission bits alone */
    CHANGE_DELETED,
    CHANGE_TOO_DEEP, /* a directory deeper than a fence allows, with all that is in it: drivers without a fence let an agent make one */
};

struct change {
    enum change_kind kind;
    const char *path; /* borrowed for the call; no leading slash, any bytes */
    mode_t mode;      /* of what is there now; of what was there for a deleted one */
    uint64_t size_bytes;
};

/* 0, or a negative errno, which ends the walk and is returned. */
typedef int (*change_fn)(const struct change *change, void *cookie);

/* Parents come before what is in them. A deleted directory is one change; of an opaque one, what the base had in it and the
 * delta has not is told name by name. Files that were copied up and are as they were are no change, nor are empty
 * directories that only rules asked for. */
int change_each(const char *delta_path, change_fn fn, void *cookie, struct err *err);

/* The same for the delta of a running fence. */
int fence_each_change(struct fence *fence, change_fn fn, void *cookie, struct err *err);

/* Finishes what a fence that was killed had begun. One that is in use does so itself. */
int change_recover(const char *delta_path, struct err *err);

const char *change_kind_name(enum change_kind kind);

/* Writes the changed files below `to` (a directory that is empty or does not exist), and the deleted paths to <to>.deleted. */
int change_export(const char *delta_path, const char *to, struct err *err);

/* Removes the delta, unless a fence uses it. */
int change_discard(const char *delta_path, struct err *err);
