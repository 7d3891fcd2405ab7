/*
 * A codebase's owner and size. Its files and versions are on disk, on the host that made it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "store/store.h"

#define CODEBASE_ID_PREFIX "cb_"

struct codebase_row {
    char *id; /* all texts owned */
    char *name;
    char *owner_id;
    char *host_id;
    int64_t size_bytes;
    int64_t file_count;
    int64_t version; /* increases with each change of its files */
    int64_t created_ns;
    int64_t updated_ns;
};

struct codebase_rows {
    struct codebase_row *rows; /* owned */
    size_t count;
    char *next_token; /* owned; NULL on the last page */
};

void codebase_row_done(struct codebase_row *row);
void codebase_rows_done(struct codebase_rows *rows);

/* ERR_ALREADY_EXISTS. */
int codebase_row_insert(struct store *store, const struct codebase_row *row, struct err *err);

/* ERR_NOT_FOUND. */
int codebase_row_get(struct store *store, const char *id, struct codebase_row *ret, struct err *err);

/* `owner_id` and `host_id` may be NULL for any. */
int codebase_row_list(struct store *store, const char *owner_id, const char *host_id, const struct store_page *page,
                      struct codebase_rows *ret, struct err *err);

/* Stores size, count, version and updated_ns; ignores the other fields of `row`. Does nothing if the stored version is later,
 * so the order of callers does not matter. ERR_NOT_FOUND. */
int codebase_row_update(struct store *store, const struct codebase_row *row, struct err *err);

/* ERR_FAILED_PRECONDITION while sandboxes on it are starting, running or stopping, unless `force`. No sandbox can start between
 * the check and the deletion. */
int codebase_row_delete(struct store *store, const char *id, bool force, struct err *err);
