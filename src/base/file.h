/*
 * Files and trees of files, always beneath a directory descriptor and never through a symlink (see path.h).
 *
 * Replacing a file is atomic and durable: a reader finds either the old bytes or the new ones, complete, even after a power
 * cut.
 */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"

/* Prefix of the temporary name of a replacement that is not committed yet; an id follows. A killed process leaves such a file
 * behind. The owner of the directory may remove it when no writer is alive. */
#define FILE_TEMP_PREFIX ".af-tmp-"

/* Replaces the file with these bytes and exactly this mode, regardless of the umask. On failure the old file is unchanged, with
 * one exception: if the last step, syncing the directory, fails, the new file is in place but may not be durable. */
int file_replace(int dirfd, const char *relname, const void *bytes, size_t len, mode_t mode);

/* Like file_replace(), but does not wait for the disk. Readers never see a part of the content, but after a power cut the file
 * may be missing or empty. For content that can be produced again, or that is synced later (syncfs). */
int file_put(int dirfd, const char *relname, const void *bytes, size_t len, mode_t mode);

/* Replacement with content that arrives in pieces: begin, write to `fd`, commit. abort() does nothing after either of the two
 * and on FILE_PENDING_NONE, so callers may always call it. */
struct file_pending {
    int fd;    /* owned; the caller writes the content to it */
    int dirfd; /* owned */
    char temp[ID_TEXT_MAX];
    char name[NAME_MAX + 1];
};

#define FILE_PENDING_NONE ((struct file_pending){ .fd = -1, .dirfd = -1 })

int file_replace_begin(int dirfd, const char *relname, mode_t mode, struct file_pending *ret);
int file_replace_commit(struct file_pending *pending);

/* Commits a file that the caller keeps open as `fd`. Once the new file is in place `fd` refers to it, with unchanged flags,
 * opened for reading and writing; also if syncing the directory failed. */
int file_replace_commit_opened(struct file_pending *pending, int fd);
void file_replace_abort(struct file_pending *pending);

/* Appends the bytes of a regular file to `out`. Returns -EFBIG above `max`, -EISDIR for a directory and -EINVAL for other kinds
 * of files, and never blocks on them. */
int file_read(int dirfd, const char *relpath, size_t max, struct buf *out);

/* For files of the kernel, in /proc, /sys or a cgroup, by their path. Reading is like file_read(); writing creates nothing. */
int file_read_kernel(const char *path, size_t max, struct buf *out);
int file_write_kernel(const char *path, const char *text);

/* Makes the names in a directory durable. `dirfd` may be O_PATH. */
int file_fsync_dir(int dirfd);

/* A walk of a deeper tree fails with -ENAMETOOLONG. The limit is above the depth that a fence lets an agent create, so every
 * delta can be walked. A walk holds a bounded number of descriptors at any depth. */
#define FILE_WALK_DEPTH_MAX 1024

struct file_entry {
    int dirfd;        /* borrowed: the directory that contains the entry, for *at() calls */
    const char *name; /* within that directory */
    const char *path; /* from the start of the walk, without a leading slash */
    size_t path_len;
    unsigned depth; /* 1 for entries of the directory where the walk starts */
    const struct stat *st;
};

enum file_walk_verdict {
    FILE_WALK_ON = 0,
    FILE_WALK_SKIP = 1, /* do not descend into this directory */
    FILE_WALK_STOP = 2,
};

/* Returns a verdict, or a negative errno that ends the walk. */
typedef int (*file_walk_fn)(const struct file_entry *entry, void *cookie);

/* Calls `fn` for everything beneath the directory `relpath`: each directory before its entries, entries in no particular order.
 * Skips entries that vanish or change their type during the walk. Returns 0 at the end, 1 if `fn` stopped it, or -errno; `err`
 * is set only if the walk itself failed. */
int file_walk(int dirfd, const char *relpath, file_walk_fn fn, void *cookie, struct err *err);

/* Like file_walk(), with the entries of each directory in byte order. */
int file_walk_sorted(int dirfd, const char *relpath, file_walk_fn fn, void *cookie, struct err *err);

/* Removes a file, or a directory with its whole tree at any depth. Adds the permission bits it needs to directories that we
 * own. A missing path is a success. If something cannot be removed, removes everything else and returns the first error. */
int file_remove_tree(int dirfd, const char *relpath);
