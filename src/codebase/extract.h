/*
 * Laying out an archive in an empty directory. The archive is a stranger's: what is laid out are regular files, symlinks (their
 * targets are text) and directories, nothing else, nothing outside, and never through one of its own symlinks. Modes keep
 * only whether a file is executable; owners and attributes are dropped; hard links become files of their own.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct extract_limits {
    uint64_t bytes, entries;
};

struct extract_counts {
    uint64_t bytes, entries;
};

/* Reads a tar, plain or compressed by gzip or zstd, up to its end. After a failure the directory holds a part of it. */
int extract_run(int archive_fd, int to_dirfd, const struct extract_limits *limits, struct extract_counts *ret, struct err *err);

/* The same from memory. */
int extract_bytes(const void *bytes, size_t len, int to_dirfd, const struct extract_limits *limits, struct extract_counts *ret,
                  struct err *err);
