/*
 * What is remembered of a codebase: whose it is and how large. Its files and versions are on disk, on the host that made it.
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
    int64_t version; /* counts up with each change of its files */
    int64_t created_ns;
    int64_t updated_ns;
};

struct codebase_rows {
    struct codebase_row *rows; /* owned */
    size_t count;
    char *next_token; /* owned; NULL when there are no more */
};

void codebase_row_done(struct codebase_row *row);
void codebase_rows_done(struct codebase_rows *rows);

/* ERR_ALREADY_EXISTS. */
int codebase_row_insert(struct store *store, const struct codebase_row *row, struct err *err);

/* ERR_NOT_FOUND. */
int codebase_row_get(struct store *store, const char *id, struct codebase_row *ret, struct err *err);

/* `owner_id` and `host_id` may be NULL: any. */
int codebase_row_list(struct store *store, const char *owner_id, const char *host_id, const struct store_page *page,
                      struct codebase_rows *ret, struct err *err);

/* Size, count, version and updated_ns of `row`; the rest of it is not looked at. When the database knows a later version
 * already, that stays: who comes late changes nothing, and no order of callers matters. ERR_NOT_FOUND. */
int codebase_row_update(struct store *store, const struct codebase_row *row, struct err *err);

/* ERR_FAILED_PRECONDITION while sandboxes on it are starting, running or stopping, unless `force`. Nobody can start
 * one in between. */
int codebase_row_delete(struct store *store, const char *id, bool force, struct err *err);
