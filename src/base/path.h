/*
 * Paths: as text, and as a way to a file that never leaves the directory it starts from.
 *
 * The functions on text look at nothing on disk. The `_beneath` functions take a directory descriptor and a relative path,
 * follow no symlink in any component and refuse ".." and a leading "/" (-EXDEV) whatever they would resolve to, so a peer who
 * renames and links while we walk can choose only among files beneath the descriptor. They do cross mount points. A path may be of any
 * length, also of more than PATH_MAX bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"

struct path_component {
    const char *name; /* borrowed from the path; not ended by a NUL */
    size_t len;
};

/* The next component of [*cursor, end), slashes skipped; "." and ".." are given as they are. False at the end.
 *     for (const char *at = path; path_next_component(&at, end, &c);) */
bool path_next_component(const char **cursor, const char *end, struct path_component *ret);

bool path_component_is(const struct path_component *c, const char *name);

/* Writes the path as "/a/b" to `out`, which is emptied first: no "//", ".", ".." or trailing slash. A relative path counts
 * from the root. -EINVAL for an empty path or a NUL in it, -EXDEV when ".." climbs above the root. Text only: where a
 * component is a symlink the kernel may mean another file. */
int path_clean(const char *path, size_t len, struct buf *out);

/* Whether `path` is `root` or below it. Both as path_clean() gives them; "/ab" is not beneath "/a". */
bool path_is_beneath(const char *root, const char *path);

/* openat() beneath `dirfd`, always with O_CLOEXEC and O_NOFOLLOW. "." is the directory itself. A symlink is -ELOOP; as the
 * last component it is -ENOTDIR with O_DIRECTORY, and with O_PATH the descriptor is the link. Returns the descriptor or -errno.
 * Opening a FIFO may block: add O_NONBLOCK for files of a stranger. */
int path_open_beneath(int dirfd, const char *relpath, int flags, mode_t mode);

/* Whether the -errno of looking for a path says that there is no such thing, as against that it could not be looked for: without a
 * descriptor, for instance, nobody knows. */
bool path_is_absent(int r);

/* open() of an absolute path that had no symlink in it when it was noted, as realpath(3) gives them: if one of its components has become
 * one since, -ELOOP or -ENOTDIR. Always with O_CLOEXEC. */
int path_open_real(const char *path, int flags);

/* open() of an absolute path through links that nobody but root and ourselves could have put there: others are -ELOOP. Always with
 * O_CLOEXEC. For directories that a configuration names, in places that somebody else may own. */
int path_open_trusted(const char *path, int flags);

/* What the kernel calls a directory or file that is open: no link is left in that. NULL: it has no name any more. Free it. */
char *path_of_open(int fd);

/* For the *at() calls: an O_PATH descriptor of the directory that holds the last component, and where its name begins in
 * `relpath`. -EINVAL when the path ends in "." or "/". */
int path_open_parent_beneath(int dirfd, const char *relpath, int *ret_fd, const char **ret_name);

/* fstatat() and unlinkat() beneath `dirfd`, of the name itself where it is a symlink. */
int path_stat_beneath(int dirfd, const char *relpath, struct stat *ret);
int path_unlink_beneath(int dirfd, const char *relpath, int flags);

/* Makes the directory and those above it that are missing. One that exists is left as it is. -ENOTDIR, -ELOOP when something
 * else is in the way. */
int path_mkdirs_beneath(int dirfd, const char *relpath, mode_t mode);
