/*
 * What all kinds of rows do alike: those with an id, which is their first column. Pages by a token are of those that have created_ns.
 * Private to this module.
 */
#pragma once

#include "store/store.h"
#include "store/store_metrics.h"
#include "store/table.h"

/* ERR_ALREADY_EXISTS; ERR_INVALID_ARGUMENT for an id or texts that are none. */
int row_insert(struct store *store, enum store_call call, const struct table *table, const void *row, struct err *err);
int row_check(const struct table *table, const void *row, struct err *err);

int row_get(struct store *store, enum store_call call, const struct table *table, const char *id, void *ret_row,
            struct err *err);

/* A page of rows, in the order of their making. The caller adds conditions (" AND ...") between begin and end. */
int row_list_begin(const struct table *table, const struct store_page *page, struct query *query, struct err *err);
int row_list_end(struct store *store, enum store_call call, const struct table *table, const struct store_page *page,
                 struct query *query, void *ret_rows, size_t *ret_count, char **ret_next_token, struct err *err);

/* What "SELECT count(*) ..." tells. */
int row_count(struct store *store, enum store_call call, const struct query *query, int64_t *ret, struct err *err);

/* Some of the rows that a filter lets through, by number, and how many it does. */
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

/* Why something moved. It may hold what a program printed, and must be kept all the same: cut, and escaped if it is no text. To be freed. */
char *row_clean_reason(const char *reason);

/* Any query that began with table_select(). `rows` names the table and is empty. */
int row_collect(struct store *store, enum store_call call, struct query *query, struct table_rows *rows, struct err *err);

/* Within a job: the codebase is there and stays until the end of the transaction. ERR_NOT_FOUND. */
int codebase_row_hold(struct db *db, const char *id, struct err *err);
