/*
 * Operations on files beneath the root of a mount, for who may wait: the mount is the sandbox's own, so its rules hold, and what is
 * asked of it may take as long as the fence takes.
 *
 * A path never leaves the root's file system, and no symlink is followed: an agent may exchange anything for anything meanwhile. What
 * is no regular file or directory is told of, not opened. All return 0 or a negative errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "wire/ctl_proto.h"

#define FILE_OP_DEPTH_MAX 200     /* of what is removed */
#define FILE_OP_NAMES_MAX 1000000 /* in a directory that is listed; -E2BIG */

/* The root of what is mounted there, a fence unless it `is_plain`, or -ENOTCONN: never the directory below it. */
int file_op_open_root(const char *mount_point, bool is_plain);

/* From here on this thread is the sandbox's user for all it does with files, without the rights of ours. */
int file_op_become(uid_t uid, gid_t gid);

/* `target` is filled for a symlink, and lent by `ret`. */
int file_op_stat(int root, const char *path, char target[CTL_PATH_MAX], struct ctl_file *ret);

/* Names behind `after`, as many as fit into `buf` of CTL_LISTING_BYTES_MAX, which `ret` borrows. */
int file_op_list(int root, const char *path, const char *after, uint8_t *buf, struct ctl_listing *ret);

/* A regular file to read from: the descriptor. */
int file_op_open(int root, const char *path, struct ctl_file *ret);

/* A regular file to write `size` bytes to, which there is room for: when there is none, nothing has changed. What it had is in it still,
 * and is to be overwritten from the beginning and cut at the end. */
int file_op_create(int root, const char *path, uint32_t flags, mode_t mode, uint64_t size);

int file_op_mkdir(int root, const char *path, uint32_t flags, mode_t mode);
int file_op_remove(int root, const char *path, uint32_t flags);
/* As rename(2); -EEXIST with CTL_FILE_EXCLUSIVE. Nothing is made when there is nothing at `path`. */
int file_op_rename(int root, const char *path, const char *new_path, uint32_t flags);

/* Up to `size` bytes; pipes at either end are waited for until `cancel_fd` is readable: -ECANCELED. How many there were. */
int64_t file_op_copy(int from, int to, uint64_t size, int cancel_fd);
