/*
 * Files and trees of them, always beneath a directory descriptor and never through a symlink (see path.h).
 *
 * Replacing is atomic and durable: whoever opens the name, also after a power cut, finds the old bytes or the new ones, whole.
 */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"

/* What a replacement is called until it is committed: this and an id. A process killed in between leaves one behind; whoever
 * owns the directory may remove them when no writer is alive. */
#define FILE_TEMP_PREFIX ".af-tmp-"

/* Puts a file with these bytes and exactly this mode (no umask) at the name. After a failure the old file is as it was, with one
 * exception: -errno from the last step, syncing the directory, leaves the new file in place but perhaps not durable. */
int file_replace(int dirfd, const char *relname, const void *bytes, size_t len, mode_t mode);

/* The same without waiting for the disk: nobody ever finds part of it, but after a power cut there may be nothing, or an empty
 * file. For what can be made again, or is synced later (syncfs). */
int file_put(int dirfd, const char *relname, const void *bytes, size_t len, mode_t mode);

/* The same for content that comes in pieces: begin, write to `fd`, then commit. abort() after either, or on FILE_PENDING_NONE,
 * does nothing, so it may be called always. */
struct file_pending {
    int fd;    /* owned; write here */
    int dirfd; /* owned */
    char temp[ID_TEXT_MAX];
    char name[NAME_MAX + 1];
};

#define FILE_PENDING_NONE ((struct file_pending){ .fd = -1, .dirfd = -1 })

int file_replace_begin(int dirfd, const char *relname, mode_t mode, struct file_pending *ret);
int file_replace_commit(struct file_pending *pending);

/* The same for a file that the caller has open and goes on with: `fd` stands for the new file once that is in place, also where syncing the
 * directory failed; with the flags it had, for reading and writing. */
int file_replace_commit_opened(struct file_pending *pending, int fd);
void file_replace_abort(struct file_pending *pending);

/* Adds a regular file's bytes to `out`. -EFBIG above `max`; anything but a regular file is -EINVAL (-EISDIR), never waited for. */
int file_read(int dirfd, const char *relpath, size_t max, struct buf *out);

/* Makes the names in a directory durable. `dirfd` may be O_PATH. */
int file_fsync_dir(int dirfd);

/* A deeper tree is -ENAMETOOLONG. More than a fence lets an agent make, so that its deltas are never too deep to be walked. A walk holds a
 * bounded number of descriptors, whatever the depth. */
#define FILE_WALK_DEPTH_MAX 1024

struct file_entry {
    int dirfd;        /* borrowed: the directory that holds it, for *at() calls */
    const char *name; /* in that directory */
    const char *path; /* from where the walk began, no leading slash */
    size_t path_len;
    unsigned depth; /* 1 for the entries of the directory where the walk began */
    const struct stat *st;
};

enum file_walk_verdict {
    FILE_WALK_ON = 0,
    FILE_WALK_SKIP = 1, /* do not go into this directory */
    FILE_WALK_STOP = 2,
};

/* A verdict or a negative errno, which ends the walk. */
typedef int (*file_walk_fn)(const struct file_entry *entry, void *cookie);

/* Calls `fn` for everything beneath the directory `relpath`, a directory before its entries, in no particular order. Entries
 * that vanish or change their kind meanwhile are passed over. 0 at the end, 1 when stopped, -errno; `err` is filled when the
 * walk itself failed. */
int file_walk(int dirfd, const char *relpath, file_walk_fn fn, void *cookie, struct err *err);

/* The same with the entries of each directory in the order of their bytes. */
int file_walk_sorted(int dirfd, const char *relpath, file_walk_fn fn, void *cookie, struct err *err);

/* Removes a file, or a directory with all in it however deep, and opens up directories of ours that have no permission bits.
 * What is not there is no error. What cannot be removed is left, the rest goes, and the first reason is returned. */
int file_remove_tree(int dirfd, const char *relpath);
