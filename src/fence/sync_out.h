/*
 * Syncs a sandbox's changes out: the changes in the delta become part of the base, and leave the delta.
 *
 * While this runs no operation is under way and new ones wait, so the sync-out is the tree at one instant. Then everything goes
 * on as if nothing had happened: the same names, contents, modes, times and inode numbers, now from the base. Open files, also
 * those without a name, stay open, and the next write to one makes a new copy. Where a newer change of somebody else won, that
 * shows instead, also in the kernel's caches when the call returns.
 *
 * Only for a fence that was made with `syncs_out`. What is neither file, directory nor symlink (a FIFO, a socket) stays in the
 * delta. Names of one file become files of their own, which is how the base is shown (docs/fence.md).
 *
 * After a kill in between, the delta is unchanged or lacks what was applied; the next fence_new() completes the rest. Before
 * that, the code behind `apply` must have finished or undone its own part.
 */
#pragma once

#include "fence/fence.h"

enum sync_out_kind {
    SYNC_OUT_FILE,    /* a regular file comes to the path */
    SYNC_OUT_SYMLINK, /* likewise */
    SYNC_OUT_DIR,     /* a directory */
    SYNC_OUT_MODE,    /* an existing directory gets other permission bits */
    SYNC_OUT_REMOVED, /* a file, or a directory that is empty by then, is removed */
};

enum sync_out_outcome {
    SYNC_OUT_TAKEN, /* the default */
    SYNC_OUT_LOST,  /* the base has a newer version; this one is saved elsewhere or dropped */
    SYNC_OUT_LEFT,  /* it cannot be applied and stays in the delta */
};

/* What the base had at the path when the sandbox first changed it. */
enum sync_out_base_kind { SYNC_OUT_BASE_UNKNOWN, SYNC_OUT_BASE_ABSENT, SYNC_OUT_BASE_PRESENT };

struct sync_out_base {
    enum sync_out_base_kind kind;
    uint64_t ino, size_bytes;
    int64_t mtime_ns;
};

struct sync_out_change {
    enum sync_out_kind kind;
    enum sync_out_outcome outcome; /* set by `apply` */
    const char *path;              /* borrowed; no leading slash, any bytes */
    mode_t mode;                   /* permission bits of the new or changed file */
    int from_fd;                   /* FILE, SYMLINK: the file to be moved or linked, by directory and name; -1 otherwise */
    const char *name;
    int64_t changed_ns; /* by the clock of the delta's file system */
    struct sync_out_base was;
};

/* Removals come before what takes their place and after what was in them; directories come before their children. Returns 0 if
 * everything was applied durably and at once; otherwise a negative errno, and then nothing may have changed. It must not use
 * the mount, which waits for it. */
typedef int (*sync_out_fn)(struct sync_out_change *changes, size_t count, void *cookie, struct err *err);

struct sync_out_result {
    size_t taken, lost, left;
};

/* -ETIMEDOUT: an operation did not end in time; everything goes on, and the call may be repeated. If nothing changed since the
 * last time, `apply` is not called. One caller at a time; others wait. Not from a thread of the fence. */
int fence_sync_out(struct fence *fence, sync_out_fn apply, void *cookie, struct sync_out_result *ret, struct err *err);
