/*
 * The counters of a codebase, in its file `meta`. They are replaced without waiting for the disk. If a power cut loses them,
 * performing the versions again restores them (settle.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct codebase_meta {
    uint64_t version; /* the last performed version */
    uint64_t oldest;  /* the oldest undo layer that is kept; version + 1 if there is none */
    uint64_t size_bytes, file_count;
    uint64_t undo_bytes;
    int64_t trimmed_ns; /* no change in a trimmed layer is later than this */
};

#define CODEBASE_META_NEW ((struct codebase_meta){ .oldest = 1 })

/* -EBADMSG if the file is incomplete or not a `meta`, -ENOENT. */
int codebase_meta_read(int dirfd, struct codebase_meta *ret);
int codebase_meta_write(int dirfd, const struct codebase_meta *meta);

void codebase_meta_format(const struct codebase_meta *meta, struct buf *out);
int codebase_meta_parse(const char *bytes, size_t len, struct codebase_meta *ret);

/* -ERANGE, ERR_NOT_FOUND: the files cannot be read as of this version any more, or not yet. */
int codebase_meta_check_version(const struct codebase_meta *meta, uint64_t version, struct err *err);
