/*
 * Listing a codebase in the order of names, a directory before what is in it, in bounded memory however large it is. It is no
 * snapshot: a version made meanwhile may show in part.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "codebase/codebase.h"

enum codebase_file_kind { CODEBASE_FILE, CODEBASE_SYMLINK, CODEBASE_DIRECTORY };

struct codebase_file {
    const char *path; /* from the codebase's root, no leading slash; borrowed for the call */
    const char *name;
    enum codebase_file_kind kind;
    mode_t mode;
    uint64_t size_bytes;
    int64_t mtime_ns;
};

/* A nonzero answer ends the listing and is returned. */
typedef int (*codebase_file_fn)(const struct codebase_file *file, void *cookie);

struct codebase_list_options {
    const char *path; /* NULL, "" or "/": the root */
    bool is_recursive;
    const char *after; /* go on behind this path, the last of an earlier call; NULL: from the beginning */
    size_t limit;      /* at most so many; 0: all */
};

/* 0 at the end, 1 when the limit was reached and there may be more. A directory that is not there is -ENOENT, or empty when not
 * recursive; a file is ERR_FAILED_PRECONDITION. */
int codebase_list(struct codebase *cb, const struct codebase_list_options *options, codebase_file_fn fn, void *cookie,
                  struct err *err);
