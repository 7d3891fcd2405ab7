/*
 * A directory as a tar archive, made while it is read: regular files, symbolic links and directories, with their executable bits and times.
 * What else there is (sockets, devices) is passed over, and counted. Memory holds the names, not the contents.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"

struct tarball;

/* `prefix` stands before every name ("", "src/"). `exclude` are globs, each of a name or of a path from the directory on; what matches is
 * left out, with all beneath. */
int tarball_open(int dirfd, const char *prefix, const char *const *exclude, size_t exclude_count, struct tarball **ret,
                 struct err *err);
void tarball_close(struct tarball *tarball);
DEFINE_AUTOPTR(tarball, tarball_close);

/* The next bytes; 0 at the end. A file that vanished since it was listed is left out. */
ssize_t tarball_read(struct tarball *tarball, void *bytes, size_t size, struct err *err);

struct tarball_counts {
    uint64_t files, bytes; /* all there are, by their sizes when they were listed */
    uint64_t bytes_read;   /* of them, so far */
    uint64_t skipped;
};

void tarball_count(const struct tarball *tarball, struct tarball_counts *ret);
