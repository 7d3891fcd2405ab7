/*
 * The file versions/<N>/manifest, which lists the changes of a version. It is written once, before the version is committed,
 * and never changes. It is the journal from which the version is performed, and later shows what the version changed, when, and
 * by whom.
 *
 * Its names come from agents and archives. The reader refuses a file that is incomplete or that contains a path that a codebase
 * cannot have.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "codebase/codebase_int.h"

#define MANIFEST_NAME "manifest"
#define MANIFEST_SIZE_MAX (1ULL << 30)
#define MANIFEST_TEXT_MAX 256 /* of `by` and `reason`; longer texts are cut */

enum manifest_op {
    MANIFEST_PUT = '+',    /* n<object> moves to the path; the previous content moves to o<object> */
    MANIFEST_REMOVE = '-', /* the content of the path moves to o<object> */
    MANIFEST_LOST = '!',   /* a change that lost against a newer one; n<object>, if there is one, stays in the version */
};

struct manifest_entry {
    enum manifest_op op;
    unsigned object;
    enum tree_kind new_kind, old_kind;
    bool is_conflict;
    int64_t when_ns; /* by the author's clock */
    uint64_t new_bytes, new_files, old_bytes, old_files;
    char *path;       /* owned */
    char *sha256;     /* owned; hex, or NULL */
    char *source;     /* owned; absolute path of its file in a delta, which is to be removed; NULL: none */
    uint64_t src_ino; /* identity of that file */
    int64_t src_mtime_ns;
};

struct manifest {
    uint64_t version;
    int64_t time_ns;
    char *by, *reason; /* owned */
    struct manifest_entry *entries;
    size_t count, cap;
};

#define MANIFEST_EMPTY ((struct manifest){ 0 })

void manifest_done(struct manifest *m);

/* Adds a zeroed entry, which is valid until the next one is added. */
struct manifest_entry *manifest_add(struct manifest *m);
void manifest_entry_done(struct manifest_entry *e);

void manifest_format(const struct manifest *m, struct buf *out);

/* -EBADMSG */
int manifest_parse(const char *bytes, size_t len, struct manifest *ret);

/* Reads the manifest of the version in this directory. -ENOENT, -EBADMSG. */
int manifest_read(int version_fd, struct manifest *ret);

/* Adds the effect of the version to the counters. */
void manifest_count(const struct manifest *m, struct codebase_meta *meta);
uint64_t manifest_undo_bytes(const struct manifest *m);

/* Returns the time of its latest change, by the authors' clocks. */
int64_t manifest_last_ns(const struct manifest *m);
