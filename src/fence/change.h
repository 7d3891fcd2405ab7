/*
 * The changes in a delta, path by path, found by walking it beside its base. Works on a delta that no fence uses, and as a
 * snapshot on one in use.
 */
#pragma once

#include "fence/fence.h"

enum change_kind {
    CHANGE_ADDED,
    CHANGE_MODIFIED, /* content, link target or kind */
    CHANGE_MODE,     /* permission bits alone */
    CHANGE_DELETED,
    CHANGE_TOO_DEEP, /* a directory deeper than a fence allows, with all in it: without a fence an agent can make one */
};

struct change {
    enum change_kind kind;
    const char *path; /* borrowed for the call; no leading slash, any bytes */
    mode_t mode;      /* of what is there now; for a deletion of what was there */
    uint64_t size_bytes;
};

/* Returns 0, or a negative errno that ends the walk and is returned. */
typedef int (*change_fn)(const struct change *change, void *cookie);

/* Parents come before their children. A deleted directory is one change. In an opaque directory each name that only the base
 * has is a deletion. Files that were copied up and are unchanged are no changes, nor are empty directories that only rules
 * asked for. */
int change_each(const char *delta_path, change_fn fn, void *cookie, struct err *err);

/* The same for the delta of a running fence. */
int fence_each_change(struct fence *fence, change_fn fn, void *cookie, struct err *err);

/* Finishes what a killed fence had begun. Does nothing to a delta in use. */
int change_recover(const char *delta_path, struct err *err);

const char *change_kind_name(enum change_kind kind);

/* Writes the changed files below `to` (a directory that is empty or does not exist), and the deleted paths to <to>.deleted. */
int change_export(const char *delta_path, const char *to, struct err *err);

/* Removes the delta, unless a fence uses it. */
int change_discard(const char *delta_path, struct err *err);
