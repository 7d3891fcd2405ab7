/*
 * Descriptors: calls that finish what they began. All go on after EINTR and after short transfers; on a non-blocking
 * descriptor they stop with -EAGAIN, and how much was transferred before is lost, so give them blocking ones or files.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"

/* Bytes read: less than `len` only at the end of the input. Or -errno. */
ssize_t fd_read_full(int fd, void *bytes, size_t len);
ssize_t fd_pread_full(int fd, void *bytes, size_t len, off_t offset);

/* 0 when everything was written, or -errno (-ENOSPC also where a file system says so by writing nothing). */
int fd_write_full(int fd, const void *bytes, size_t len);
int fd_pwrite_full(int fd, const void *bytes, size_t len, off_t offset);

/* Adds everything up to the end of the input. -EFBIG when there are more than `max` bytes; `out` then holds what came. */
int fd_read_all(int fd, size_t max, struct buf *out);

int fd_set_nonblock(int fd, bool on);
int fd_cloexec(int fd, bool on);

/* A duplicate numbered `lowest` or more, CLOEXEC. The original stays open. */
int fd_move_above(int fd, int lowest);

/* Close every descriptor from `first` upwards, or all except those in `keep` (ascending, no doubles). Async-signal-safe, for
 * a child between fork and exec; in a process with threads it closes what they use. */
int fd_close_above(int first);
int fd_close_all_but(const int *keep, size_t count);
