/*
 * Provenance: each file that an approval wrote to, or removed from, a project. A change is pending if no commit contains it yet
 * and it was not undone. Rows are never removed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "store/store.h"

/* All texts owned. */
struct applied_change_row {
    char *id;          /* a UUID */
    char *approval_id; /* groups the changes that were applied together */
    char *sandbox_id, *owner_id, *host_id;
    char *creator, *creator_type; /* the sandbox's */
    char *actor;                  /* who approved it */
    char *file_path;              /* absolute */
    char *relative_path;          /* relative to the project root */
    char *project_root;
    char *change_type; /* "added", "modified", "deleted" */
    int64_t size_bytes, mode;
    char *content_hash;
    int64_t applied_ns; /* times: 0 is never */
    int64_t undone_ns;
    int64_t committed_ns;
    char *commit_hash, *commit_message;
};

struct applied_change_rows {
    struct applied_change_row *rows; /* owned */
    size_t count;
};

void applied_change_row_done(struct applied_change_row *row);
void applied_change_rows_done(struct applied_change_rows *rows);

/* Inserts all or none. Keeps an existing row with the same id, so that a caller that was interrupted can repeat the call. */
int applied_change_row_insert(struct store *store, const struct applied_change_row *rows, size_t count, struct err *err);

/* NULL does not restrict. */
struct applied_change_filter {
    const char *owner_id, *host_id, *sandbox_id, *approval_id;
    const char *project_root, *file_path; /* exact match */
    bool only_pending;
};

/* Newest first. `ret_total` may be NULL. */
int applied_change_row_list(struct store *store, const struct applied_change_filter *filter, size_t limit, size_t offset,
                            struct applied_change_rows *ret, int64_t *ret_total, struct err *err);

/* Records the commit that contains these changes. Changes with an earlier commit keep that. Returns how many changed. */
int applied_change_row_commit(struct store *store, const char *const *ids, size_t count, const char *hash, const char *message,
                              int64_t now_ns, struct err *err);

/* Records that all changes of an approval were undone. Returns how many. */
int applied_change_row_undo(struct store *store, const char *approval_id, int64_t now_ns, struct err *err);
