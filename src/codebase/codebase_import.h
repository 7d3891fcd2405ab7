/*
 * Uploads many files in one archive as one version: a tar stream, plain or compressed with gzip or zstd. A thread unpacks it
 * while it arrives. extract.h describes the allowed content; an archive with anything else changes nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "codebase/codebase_txn.h"

struct codebase_import_options {
    bool is_replacing;    /* the codebase becomes exactly the archive; otherwise the archive is merged into it */
    uint64_t max_bytes;   /* unpacked size; 0: CODEBASE_IMPORT_BYTES, or the quota if that is less */
    uint64_t max_entries; /* 0: CODEBASE_IMPORT_ENTRIES */
    const char *by;       /* may be NULL */
};

#define CODEBASE_IMPORT_BYTES (64ULL << 30)
#define CODEBASE_IMPORT_ENTRIES 2000000ULL

struct codebase_import;

int codebase_import_begin(struct codebase *cb, const struct codebase_import_options *options, struct codebase_import **ret,
                          struct err *err);

/* Fails with the reason as soon as the archive turns out to be invalid. */
int codebase_import_write(struct codebase_import *import, const void *bytes, size_t len, struct err *err);
void codebase_import_free(struct codebase_import *import);
DEFINE_AUTOPTR(codebase_import, codebase_import_free);

struct codebase_import_result {
    uint64_t version, bytes, entries;
};

/* When merging, a file where the codebase has a directory, or the reverse, is ERR_FAILED_PRECONDITION. `ret_commit` may be
 * NULL. */
int codebase_import_commit(struct codebase_import *import, struct codebase_import_result *ret,
                           struct codebase_commit *ret_commit, struct err *err);
