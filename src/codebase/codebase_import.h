/*
 * The upload of many files as one archive, one version: a tar stream, plain or compressed by gzip or zstd. It is unpacked while
 * it comes, by a thread of its own. What it may hold is in extract.h; an archive that holds anything else changes nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "codebase/codebase_txn.h"

struct codebase_import_options {
    bool is_replacing;    /* the codebase becomes exactly the archive; otherwise the archive is laid over it */
    uint64_t max_bytes;   /* unpacked; 0: CODEBASE_IMPORT_BYTES, or the quota where that is less */
    uint64_t max_entries; /* 0: CODEBASE_IMPORT_ENTRIES */
    const char *by;       /* may be NULL */
};

#define CODEBASE_IMPORT_BYTES (64ULL << 30)
#define CODEBASE_IMPORT_ENTRIES 2000000ULL

struct codebase_import;

int codebase_import_begin(struct codebase *cb, const struct codebase_import_options *options, struct codebase_import **ret,
                          struct err *err);

/* Fails with the reason as soon as something is wrong with the archive. */
int codebase_import_write(struct codebase_import *import, const void *bytes, size_t len, struct err *err);
void codebase_import_free(struct codebase_import *import);
DEFINE_AUTOPTR(codebase_import, codebase_import_free);

struct codebase_import_result {
    uint64_t version, bytes, entries;
};

/* Laid over what is there, a file in the place of a directory or the other way round is ERR_FAILED_PRECONDITION. `ret_commit` may
 * be NULL. */
int codebase_import_commit(struct codebase_import *import, struct codebase_import_result *ret,
                           struct codebase_commit *ret_commit, struct err *err);
