/*
 * Requests about a sandbox's files: to quiesce them, and to read and write them as the sandbox sees them (CTL_REQUEST_QUIESCE
 * and CTL_REQUEST_FILE of ctl_proto.h).
 *
 * Each call blocks like those of ctl_client.h and uses a tag that the caller chooses. `buf` holds FRAME_PAYLOAD_MAX bytes, from
 * which results are borrowed. No call touches the sandbox's file system in this process; a returned descriptor is always a
 * pipe. A supervisor of an earlier release closes the connection: -ECONNRESET.
 */
#pragma once

#include "wire/ctl_client.h"

/* After the OK no file operation runs, and new ones wait until ctl_client_release(), the end of the connection, or limit_ms (at
 * most CTL_QUIESCE_MS_MAX). -EREMOTEIO with ERR_UNAVAILABLE if an operation did not end within wait_ms; with
 * ERR_FAILED_PRECONDITION if another client has quiesced the sandbox. */
int ctl_client_quiesce(int fd, uint64_t tag, uint32_t wait_ms, uint32_t limit_ms, void *buf, int timeout_ms, struct err *err);

/* Names paths that the release removes from the delta, with everything beneath. Absolute. May be called several times. */
int ctl_client_revert(int fd, uint64_t tag, const char *const *paths, size_t count, void *buf, int timeout_ms, struct err *err);

/* Gives the delta's file at `path` the content of a regular file. */
int ctl_client_replace(int fd, uint64_t tag, const char *path, int content_fd, void *buf, int timeout_ms, struct err *err);

/* -EREMOTEIO with ERR_FAILED_PRECONDITION if the quiescence had ended by itself; then the delta is unchanged. */
int ctl_client_release(int fd, uint64_t tag, void *buf, int timeout_ms, struct err *err);

/* Paths are relative to the workspace; "." is the workspace. A link itself is shown, not its target. Errors such as
 * ERR_NOT_FOUND and ERR_PERMISSION_DENIED follow the sandbox's rules. */
int ctl_client_file_stat(int fd, uint64_t tag, const char *path, struct ctl_file *ret, void *buf, int timeout_ms,
                         struct err *err);

/* Lists names after `after` ("" or NULL: from the start), as many as one reply holds. */
int ctl_client_file_list(int fd, uint64_t tag, const char *path, const char *after, struct ctl_listing *ret, void *buf,
                         int timeout_ms, struct err *err);

/* The content arrives through `ret_pipe`, which the caller owns. After its end, ctl_client_await() with the same tag reports
 * whether the content was complete. `size` 0: to the end of the file. */
int ctl_client_file_read(int fd, uint64_t tag, const char *path, uint64_t offset, uint64_t size, struct ctl_file *ret,
                         int *ret_pipe, void *buf, int timeout_ms, struct err *err);

/* Writes exactly `size` bytes from a pipe or a regular file. The sandbox sees the file only after all of them have arrived. */
int ctl_client_file_write(int fd, uint64_t tag, const char *path, uint32_t flags, uint32_t mode, uint64_t size, int content_fd,
                          void *buf, int timeout_ms, struct err *err);

int ctl_client_file_mkdir(int fd, uint64_t tag, const char *path, uint32_t flags, uint32_t mode, void *buf, int timeout_ms,
                          struct err *err);
int ctl_client_file_remove(int fd, uint64_t tag, const char *path, uint32_t flags, void *buf, int timeout_ms, struct err *err);
/* With CTL_FILE_EXCLUSIVE an existing `new_path` is ERR_ALREADY_EXISTS. */
int ctl_client_file_rename(int fd, uint64_t tag, const char *path, const char *new_path, uint32_t flags, void *buf,
                           int timeout_ms, struct err *err);
