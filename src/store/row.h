/*
 * Shared by rows with an id, which is their first column. Lists by token need created_ns, too. Private to this module.
 */
#pragma once

#include "store/store.h"
#include "store/store_metrics.h"
#include "store/table.h"

/* ERR_ALREADY_EXISTS; ERR_INVALID_ARGUMENT for an invalid id or text. */
int row_insert(struct store *store, enum store_call call, const struct table *table, const void *row, struct err *err);
int row_check(const struct table *table, const void *row, struct err *err);

int row_get(struct store *store, enum store_call call, const struct table *table, const char *id, void *ret_row,
            struct err *err);

/* Lists a page of rows, oldest first. The caller adds conditions (" AND ...") between begin and end. */
int row_list_begin(const struct table *table, const struct store_page *page, struct query *query, struct err *err);
int row_list_end(struct store *store, enum store_call call, const struct table *table, const struct store_page *page,
                 struct query *query, void *ret_rows, size_t *ret_count, char **ret_next_token, struct err *err);

/* Runs "SELECT count(*) ...". */
int row_count(struct store *store, enum store_call call, const struct query *query, int64_t *ret, struct err *err);

/* A filtered list by limit and offset, and the total. */
struct row_window {
    const struct table *table;
    int (*add_filter)(struct query *query, const void *filter, struct err *err); /* " WHERE ..." */
    const void *filter;
    const char *order; /* " ORDER BY ..." */
    size_t limit, offset;
    enum store_call list_call, count_call;
};
/* `ret_total` may be NULL. */
int row_list_window(struct store *store, const struct row_window *window, void *ret_rows, size_t *ret_count, int64_t *ret_total,
                    struct err *err);

/* Cleans the reason of a move, which may contain a program's output: truncates it, and escapes it if it is not UTF-8. Free
 * it. */
char *row_clean_reason(const char *reason);

/* Runs a query that began with table_select(). `rows` names the table and is empty. */
int row_collect(struct store *store, enum store_call call, struct query *query, struct table_rows *rows, struct err *err);

/* In a transaction: locks the codebase's row until the end. ERR_NOT_FOUND. */
int codebase_row_hold(struct db *db, const char *id, struct err *err);
