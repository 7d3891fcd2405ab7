/*
 * Giving what a sandbox changed to somebody who keeps it: the delta's changes become part of the base, and leave the delta.
 *
 * For the moment this takes no operation is under way and new ones wait, so what is handed over is the tree at one instant. Then
 * everything goes on as if nothing had happened: the same names, contents, modes, times and inode numbers, now from the base;
 * open files, those without a name too, stay open, and the next write to one makes a new copy. Where somebody else's newer
 * change won, that is seen instead, by the kernel's caches too when the call returns.
 *
 * Only for a fence that was made with `syncs_out`. What is no file, directory or symlink (a FIFO, a socket) stays in the delta.
 * Names that are one file become files of their own: the base is shown that way (docs/fence.md).
 *
 * Killed in between, the delta is as it was, or lacks what was taken: the next fence_new() puts the rest right. Whoever takes must
 * have finished or undone its own part before that.
 */
#pragma once

#include "fence/fence.h"

enum sync_out_kind {
    SYNC_OUT_FILE,    /* a regular file comes to the path */
    SYNC_OUT_SYMLINK, /* likewise */
    SYNC_OUT_DIR,     /* a directory */
    SYNC_OUT_MODE,    /* a directory that is there has other permission bits */
    SYNC_OUT_REMOVED, /* a file, or a directory that is empty by then */
};

enum sync_out_outcome {
    SYNC_OUT_TAKEN, /* unless it is said otherwise */
    SYNC_OUT_LOST,  /* what the base has is newer; this is kept elsewhere or given up */
    SYNC_OUT_LEFT,  /* cannot be taken: it stays in the delta */
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
    enum sync_out_outcome outcome; /* for the taker to set */
    const char *path;              /* borrowed; no leading slash, any bytes */
    mode_t mode;                   /* permission bits, of what comes or has changed */
    int from_fd; /* FILE, SYMLINK: the directory and the name where it lies, to be moved or linked; -1 otherwise */
    const char *name;
    int64_t changed_ns; /* when, by the clock of the delta's file system */
    struct sync_out_base was;
};

/* Removals come before what takes their place and after what was in them; directories before what is in them. Returns 0 when
 * everything is taken for good, all at once; otherwise a negative errno, and then nothing must have changed. Nothing may be done
 * with the mount in here: it waits for this. */
typedef int (*sync_out_fn)(struct sync_out_change *changes, size_t count, void *cookie, struct err *err);

struct sync_out_result {
    size_t taken, lost, left;
};

/* -ETIMEDOUT: an operation did not end in time; everything goes on and may be tried again. With nothing changed since the last time
 * `apply` is not called. One at a time; others wait. From no thread of the fence's own. */
int fence_sync_out(struct fence *fence, sync_out_fn apply, void *cookie, struct sync_out_result *ret, struct err *err);
