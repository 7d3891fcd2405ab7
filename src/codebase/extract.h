/*
 * Laying out an archive in an empty directory. The archive is a stranger's: what is laid out are regular files, symlinks (their
 * targets are text) and directories, nothing else, nothing outside, and never through one of its own symlinks. Modes keep
 * only whether a file is executable; owners and attributes are dropped; hard links become files of their own.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct extract_limits {
    uint64_t bytes, entries;
};

struct extract_counts {
    uint64_t bytes, entries;
};

enum extract_verdict {
    EXTRACT_KEEP,
    EXTRACT_SKIP,
    EXTRACT_REWRITE, /* of a regular file: with other bytes */
};

#define EXTRACT_REWRITE_MAX ((size_t) 1 << 20) /* a larger one is refused */

/* What is not to be laid out as it is. `path` is clean; `type` is S_IFREG, S_IFLNK or S_IFDIR; `target` is that of a link. */
struct extract_filter {
    enum extract_verdict (*decide)(const char *path, mode_t type, const char *target, void *cookie);
    void (*rewrite)(const char *path, struct buf *bytes, void *cookie);
    void *cookie;
};

/* Reads a tar, plain or compressed by gzip or zstd, up to its end. After a failure the directory holds a part of it. */
int extract_run(int archive_fd, int to_dirfd, const struct extract_limits *limits, struct extract_counts *ret, struct err *err);

/* The same from memory. */
int extract_bytes(const void *bytes, size_t len, int to_dirfd, const struct extract_limits *limits, struct extract_counts *ret,
                  struct err *err);

/* The same with a filter. */
int extract_filtered(int archive_fd, int to_dirfd, const struct extract_limits *limits, const struct extract_filter *filter,
                     struct extract_counts *ret, struct err *err);
