/*
 * Lists a codebase in the order of names, each directory before its content, in bounded memory. Not a snapshot: a version made
 * meanwhile may appear partially.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "codebase/codebase.h"

enum codebase_file_kind { CODEBASE_FILE, CODEBASE_SYMLINK, CODEBASE_DIRECTORY };

struct codebase_file {
    const char *path; /* from the codebase's root, without a leading slash; borrowed for the call */
    const char *name;
    enum codebase_file_kind kind;
    mode_t mode;
    uint64_t size_bytes;
    int64_t mtime_ns;
};

/* A nonzero result ends the listing and is returned. */
typedef int (*codebase_file_fn)(const struct codebase_file *file, void *cookie);

struct codebase_list_options {
    const char *path; /* NULL, "" or "/": the root */
    bool is_recursive;
    const char *after; /* continue after this path, the last one of an earlier call; NULL: start at the beginning */
    size_t limit;      /* maximum number of entries; 0: all */
};

/* Returns 0 at the end, and 1 if the limit was reached and there may be more. A missing directory is -ENOENT, or empty if not
 * recursive; a file is ERR_FAILED_PRECONDITION. */
int codebase_list(struct codebase *cb, const struct codebase_list_options *options, codebase_file_fn fn, void *cookie,
                  struct err *err);
