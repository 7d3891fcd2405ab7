/*
 * What a server asks a sandbox's supervisor about its files: to hold them still, and to read and write them as the sandbox sees them
 * (CTL_REQUEST_QUIESCE and CTL_REQUEST_FILE of ctl_proto.h).
 *
 * Each call waits, as those of ctl_client.h do, with a tag of the caller's; `buf` holds FRAME_PAYLOAD_MAX bytes, from which results are
 * borrowed. None of them touches the sandbox's file system itself: a descriptor that comes back is a pipe. A supervisor of an
 * earlier release hangs up: -ECONNRESET.
 */
#pragma once

#include "wire/ctl_client.h"

/* From the OK on no file operation is under way and new ones wait, until ctl_client_release(), the end of the connection, or limit_ms
 * (at most CTL_QUIESCE_MS_MAX). -EREMOTEIO with ERR_UNAVAILABLE: an operation did not end within wait_ms; with
 * ERR_FAILED_PRECONDITION: somebody else holds. */
int ctl_client_quiesce(int fd, uint64_t tag, uint32_t wait_ms, uint32_t limit_ms, void *buf, int timeout_ms, struct err *err);

/* What is to leave the delta at the release; absolute paths, with all beneath. Any number of calls. */
int ctl_client_revert(int fd, uint64_t tag, const char *const *paths, size_t count, void *buf, int timeout_ms, struct err *err);

/* The delta's file at the path gets the content of a regular file. */
int ctl_client_replace(int fd, uint64_t tag, const char *path, int content_fd, void *buf, int timeout_ms, struct err *err);

/* -EREMOTEIO with ERR_FAILED_PRECONDITION: the hold had ended by itself, and nothing left the delta. */
int ctl_client_release(int fd, uint64_t tag, void *buf, int timeout_ms, struct err *err);

/* Paths relative to the workspace, "." is itself. Links are shown, not followed. ERR_NOT_FOUND, ERR_PERMISSION_DENIED, ... as the
 * rules of the sandbox have it. */
int ctl_client_file_stat(int fd, uint64_t tag, const char *path, struct ctl_file *ret, void *buf, int timeout_ms,
                         struct err *err);

/* Names behind `after` ("" or NULL: from the beginning), as many as a reply holds. */
int ctl_client_file_list(int fd, uint64_t tag, const char *path, const char *after, struct ctl_listing *ret, void *buf,
                         int timeout_ms, struct err *err);

/* The content comes from the pipe `ret_pipe`, the caller's; when it has ended, ctl_client_await() with the same tag says whether it
 * was all. `size` 0: to the end. */
int ctl_client_file_read(int fd, uint64_t tag, const char *path, uint64_t offset, uint64_t size, struct ctl_file *ret,
                         int *ret_pipe, void *buf, int timeout_ms, struct err *err);

/* Exactly `size` bytes of a pipe or a regular file; before all of them have come the sandbox sees nothing. */
int ctl_client_file_write(int fd, uint64_t tag, const char *path, uint32_t flags, uint32_t mode, uint64_t size, int content_fd,
                          void *buf, int timeout_ms, struct err *err);

int ctl_client_file_mkdir(int fd, uint64_t tag, const char *path, uint32_t flags, uint32_t mode, void *buf, int timeout_ms,
                          struct err *err);
int ctl_client_file_remove(int fd, uint64_t tag, const char *path, uint32_t flags, void *buf, int timeout_ms, struct err *err);
/* CTL_FILE_EXCLUSIVE: whatever is at `new_path` stays, and that is ERR_ALREADY_EXISTS. */
int ctl_client_file_rename(int fd, uint64_t tag, const char *path, const char *new_path, uint32_t flags, void *buf,
                           int timeout_ms, struct err *err);
