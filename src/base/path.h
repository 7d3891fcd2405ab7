/*
 * Paths as text, and opening files without leaving a directory.
 *
 * Functions on text never look at the disk. The `_beneath` functions take a directory descriptor and a relative path. They
 * follow no symlink in any component and refuse ".." and a leading "/" with -EXDEV, so a peer that renames and links files
 * during the call can only choose among files beneath the descriptor. They do cross mount points. A path may be longer than
 * PATH_MAX.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"

struct path_component {
    const char *name; /* borrowed from the path; not NUL-terminated */
    size_t len;
};

/* Returns the next component of [*cursor, end) without its slashes, or false at the end. "." and ".." are returned like names.
 *     for (const char *at = path; path_next_component(&at, end, &c);) */
bool path_next_component(const char **cursor, const char *end, struct path_component *ret);

bool path_component_is(const struct path_component *c, const char *name);

/* Replaces the content of `out` by the path in the form "/a/b": without "//", ".", ".." and a trailing slash. A relative path
 * starts at the root. Returns -EINVAL for an empty path or a NUL in it, and -EXDEV if ".." climbs above the root. Works on the
 * text only: if a component is a symlink, the kernel may resolve the path differently. */
int path_clean(const char *path, size_t len, struct buf *out);

/* Returns true if `path` is `root` or below it; "/ab" is not beneath "/a". Both must come from path_clean(). */
bool path_is_beneath(const char *root, const char *path);

/* openat() beneath `dirfd`, always with O_CLOEXEC and O_NOFOLLOW. "." opens the directory itself. A symlink gives -ELOOP; as
 * the last component it gives -ENOTDIR with O_DIRECTORY, and with O_PATH the link itself is opened. Returns the descriptor or
 * -errno. Opening a FIFO may block: pass O_NONBLOCK for untrusted files. */
int path_open_beneath(int dirfd, const char *relpath, int flags, mode_t mode);

/* Returns true if the -errno of a failed open means that the path does not exist or cannot be reached. Other errors, such as a
 * lack of descriptors, leave that open. */
bool path_is_absent(int r);

/* Opens an absolute path that had no symlinks when it was recorded, such as a result of realpath(3). Returns -ELOOP or -ENOTDIR
 * if a component has become one. Always with O_CLOEXEC. */
int path_open_real(const char *path, int flags);

/* Opens an absolute path and follows only symlinks that root or we ourselves must have made; others give -ELOOP. Always with
 * O_CLOEXEC. For directories that the configuration names in places that other users may control. */
int path_open_trusted(const char *path, int flags);

/* Returns the kernel's path of an open file or directory, free of symlinks, or NULL if it has no name any more. The caller
 * frees it. */
char *path_of_open(int fd);

/* For *at() calls: returns an O_PATH descriptor of the directory that holds the last component, and the position of that
 * component in `relpath`. -EINVAL if the path ends in "." or "/". */
int path_open_parent_beneath(int dirfd, const char *relpath, int *ret_fd, const char **ret_name);

/* fstatat() and unlinkat() beneath `dirfd`. A symlink at the end is not followed. */
int path_stat_beneath(int dirfd, const char *relpath, struct stat *ret);
int path_unlink_beneath(int dirfd, const char *relpath, int flags);

/* Creates the directory and its missing parents. Existing directories stay unchanged. Returns -ENOTDIR or -ELOOP if something
 * else has one of the names. */
int path_mkdirs_beneath(int dirfd, const char *relpath, mode_t mode);
