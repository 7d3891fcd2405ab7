/*
 * Operations on descriptors that run to completion: they continue after EINTR and after short transfers.
 *
 * Use them on blocking descriptors and files only. On a non-blocking descriptor they return -EAGAIN, and the caller does not
 * learn how much was transferred before.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"

/* Return the number of bytes read, less than `len` only at the end of the input, or -errno. */
ssize_t fd_read_full(int fd, void *bytes, size_t len);
ssize_t fd_pread_full(int fd, void *bytes, size_t len, off_t offset);

/* Return 0 when everything is written, or -errno. A file system that writes nothing and reports no error gives -ENOSPC. */
int fd_write_full(int fd, const void *bytes, size_t len);
int fd_pwrite_full(int fd, const void *bytes, size_t len, off_t offset);

/* Appends the whole input to `out`. Returns -EFBIG if it is longer than `max` bytes; `out` then holds the first `max`. */
int fd_read_all(int fd, size_t max, struct buf *out);

/* Returns a memory file with this content, or -errno. */
int fd_memory_file(const char *name, const void *bytes, size_t len);

int fd_set_nonblock(int fd, bool on);
int fd_cloexec(int fd, bool on);

/* Duplicates `fd` to a number of at least `lowest`, with CLOEXEC. The original stays open. */
int fd_move_above(int fd, int lowest);

/* Close every descriptor from `first` upwards, or all except those in `keep` (ascending, without duplicates).
 * Async-signal-safe, for a child between fork and exec. In a process with threads they would close descriptors that other
 * threads use. */
int fd_close_above(int first);
int fd_close_all_but(const int *keep, size_t count);
