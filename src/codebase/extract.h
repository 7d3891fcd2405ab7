/*
 * Unpacks an untrusted archive into an empty directory. Creates only regular files, symlinks (whose targets are not resolved)
 * and directories, nothing outside, and nothing through one of the archive's symlinks. Of a mode only the executable bit is
 * kept. Owners and attributes are dropped; hard links become separate files.
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
    EXTRACT_REWRITE, /* a regular file whose content is to be changed */
};

#define EXTRACT_REWRITE_MAX ((size_t) 1 << 20) /* larger files are refused */

/* Decides about each entry. `path` is clean; `type` is S_IFREG, S_IFLNK or S_IFDIR; `target` is that of a link. */
struct extract_filter {
    enum extract_verdict (*decide)(const char *path, mode_t type, const char *target, void *cookie);
    void (*rewrite)(const char *path, struct buf *bytes, void *cookie);
    void *cookie;
};

/* Reads a tar archive, plain or compressed with gzip or zstd, to its end. After a failure the directory contains a part of it. */
int extract_run(int archive_fd, int to_dirfd, const struct extract_limits *limits, struct extract_counts *ret, struct err *err);

/* Like extract_run(), from memory. */
int extract_bytes(const void *bytes, size_t len, int to_dirfd, const struct extract_limits *limits, struct extract_counts *ret,
                  struct err *err);

/* Like extract_run(), with a filter. */
int extract_filtered(int archive_fd, int to_dirfd, const struct extract_limits *limits, const struct extract_filter *filter,
                     struct extract_counts *ret, struct err *err);
