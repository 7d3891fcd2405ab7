/* Reads a file of a codebase in its current state or in the state after an earlier version. */
#pragma once

#include <sys/stat.h>

#include "codebase/codebase.h"

/* Returns a descriptor for reading, which the caller closes. The content never changes. -ENOENT "file not found: <path>";
 * ERR_FAILED_PRECONDITION for a symlink or a directory. */
int codebase_get_open(struct codebase *cb, const char *path, int *ret_fd, struct stat *ret_st, struct err *err);

/* Like codebase_get_open(), for the state after a version that is kept (codebase_info.oldest_version and later). -ERANGE for
 * other versions. */
int codebase_get_open_at(struct codebase *cb, uint64_t version, const char *path, int *ret_fd, struct stat *ret_st,
                         struct err *err);
