/*
 * What all kinds of rows do alike: those with an id, which is their first column, and created_ns. Private to this room.
 */
#pragma once

#include "store/meter.h"
#include "store/store.h"
#include "store/table.h"

/* ERR_ALREADY_EXISTS; ERR_INVALID_ARGUMENT for an id or texts that are none. */
int row_insert(struct store *store, enum meter_call call, const struct table *table, const void *row, struct err *err);
int row_check(const struct table *table, const void *row, struct err *err);

int row_get(struct store *store, enum meter_call call, const struct table *table, const char *id, void *ret_row,
            struct err *err);

/* A page of rows, in the order of their making. The caller adds conditions (" AND ...") between begin and end. */
int row_list_begin(const struct table *table, const struct store_page *page, struct query *query, struct err *err);
int row_list_end(struct store *store, enum meter_call call, const struct table *table, const struct store_page *page,
                 struct query *query, void *ret_rows, size_t *ret_count, char **ret_next_token, struct err *err);

/* Any query that began with table_select(). `rows` names the table and is empty. */
int row_collect(struct store *store, enum meter_call call, struct query *query, struct table_rows *rows, struct err *err);

/* Within a job: the codebase is there and stays until the end of the transaction. ERR_NOT_FOUND. */
int codebase_row_hold(struct db *db, const char *id, struct err *err);
