/*
 * The upload of one file: begun, written in pieces, committed as a version. Held on disk meanwhile, never in memory. Freed before
 * its commit, or killed, it leaves nothing.
 */
#pragma once

#include <stddef.h>

#include "codebase/codebase_txn.h"

#define CODEBASE_PUT_SAME_MODE (-1) /* an existing file stays executable if it was; a new one is 0644 */

struct codebase_put;

/* Something of another kind at the path, or a symlink or file on the way to it, is ERR_FAILED_PRECONDITION. */
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
