/*
 * Blocking file operations beneath the root of a mount. The mount is the sandbox's own, so its rules apply, and an operation
 * takes as long as the fence takes.
 *
 * A path never leaves the root's file system, and no symlink is followed, because an agent may exchange any file for any other
 * meanwhile. Only regular files and directories are opened. All functions return 0 or a negative errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "wire/ctl_proto.h"

#define FILE_OP_DEPTH_MAX 200     /* for removing */
#define FILE_OP_NAMES_MAX 1000000 /* of a directory to list; more: -E2BIG */

/* Opens the root of the mount: a fence's unless `is_plain`. -ENOTCONN if nothing is mounted; never the directory below. */
int file_op_open_root(const char *mount_point, bool is_plain);

/* From now on this thread accesses files as the sandbox's user, without our privileges. */
int file_op_become(uid_t uid, gid_t gid);

/* For a symlink, fills `target`, which `ret` borrows. */
int file_op_stat(int root, const char *path, char target[CTL_PATH_MAX], struct ctl_file *ret);

/* Lists the names after `after`, as many as fit into `buf` of CTL_LISTING_BYTES_MAX, which `ret` borrows. */
int file_op_list(int root, const char *path, const char *after, uint8_t *buf, struct ctl_listing *ret);

/* Opens a regular file for reading and returns the descriptor. */
int file_op_open(int root, const char *path, struct ctl_file *ret);

/* Opens or creates a regular file for writing `size` bytes, and reserves the space. If that fails, nothing has changed. The
 * file still has its old content: the caller overwrites it from the beginning and truncates it at the end. */
int file_op_create(int root, const char *path, uint32_t flags, mode_t mode, uint64_t size);

int file_op_mkdir(int root, const char *path, uint32_t flags, mode_t mode);
int file_op_remove(int root, const char *path, uint32_t flags);
/* Like rename(2); -EEXIST with CTL_FILE_EXCLUSIVE. Creates no parents if `path` does not exist. */
int file_op_rename(int root, const char *path, const char *new_path, uint32_t flags);

/* Copies up to `size` bytes and returns how many. Waits for pipes at either end until `cancel_fd` is readable: -ECANCELED. */
int64_t file_op_copy(int from, int to, uint64_t size, int cancel_fd);
