/*
 * Uploads one file: begin, write in pieces, commit as a version. The content is on disk, never in memory. An upload that is
 * freed or killed before its commit leaves nothing.
 */
#pragma once

#include <stddef.h>

#include "codebase/codebase_txn.h"

#define CODEBASE_PUT_SAME_MODE (-1) /* an existing file keeps its executable bits; a new one is 0644 */

struct codebase_put;

/* ERR_FAILED_PRECONDITION if the path is of another type, or leads through a symlink or a file. */
int codebase_put_begin(struct codebase *cb, const char *path, int mode, const char *by, struct codebase_put **ret,
                       struct err *err);
int codebase_put_write(struct codebase_put *put, const void *bytes, size_t len, struct err *err);
void codebase_put_free(struct codebase_put *put);
DEFINE_AUTOPTR(codebase_put, codebase_put_free);

struct codebase_put_result {
    uint64_t size_bytes, version;
    char md5[33], sha256[65]; /* lower-case hex */
};

/* `ret_commit` may be NULL. */
int codebase_put_commit(struct codebase_put *put, struct codebase_put_result *ret, struct codebase_commit *ret_commit,
                        struct err *err);
