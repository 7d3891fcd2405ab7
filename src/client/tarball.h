/*
 * Writes a directory as a tar archive while it reads it: regular files, symbolic links and directories, with their executable bits and times. It
 * skips and counts all other files (sockets, devices). It keeps names in memory, not contents.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"

struct tarball;

/* `prefix` is put before each name ("", "src/"). Each glob in `exclude` is matched against names and against paths relative to the directory; a
 * match leaves out the file, or the directory with all that is in it. */
int tarball_open(int dirfd, const char *prefix, const char *const *exclude, size_t exclude_count, struct tarball **ret,
                 struct err *err);
void tarball_close(struct tarball *tarball);
DEFINE_AUTOPTR(tarball, tarball_close);

/* Returns the number of bytes read, 0 at the end. Skips files that were deleted after they were listed. */
ssize_t tarball_read(struct tarball *tarball, void *bytes, size_t size, struct err *err);

struct tarball_counts {
    uint64_t files, bytes; /* of all listed files, by their sizes at that time */
    uint64_t bytes_read;   /* of `bytes` */
    uint64_t skipped;
};

void tarball_count(const struct tarball *tarball, struct tarball_counts *ret);
