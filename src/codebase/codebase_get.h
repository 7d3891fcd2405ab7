/* Reading a file of a codebase, as it is now or was after an earlier version. */
#pragma once

#include <sys/stat.h>

#include "codebase/codebase.h"

/* A descriptor that reads the file, the caller's to close: what it reads never changes. -ENOENT "file not found: <path>"; a symlink
 * or a directory is ERR_FAILED_PRECONDITION. */
int codebase_get_open(struct codebase *cb, const char *path, int *ret_fd, struct stat *ret_st, struct err *err);

/* The same of the state after a version that is kept (codebase_info.oldest_version and later): -ERANGE for any other. */
int codebase_get_open_at(struct codebase *cb, uint64_t version, const char *path, int *ret_fd, struct stat *ret_st,
                         struct err *err);
