/*
 * Describes a kind of row: which column is which field of a C struct. The description yields the statements that insert and
 * select rows, the checks of values, and the destructor. Private to this module.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "store/db.h"
#include "store/store.h"

#define TABLE_TEXT_MAX (256u << 10)
#define TABLE_BYTES_MAX (8u << 20)

enum column_kind {
    COLUMN_TEXT,   /* char *, UTF-8; NULL is stored as "" and comes back as "" */
    COLUMN_PATH,   /* char *, any bytes but NUL */
    COLUMN_PATHS,  /* char **, ended by NULL; NULL for no paths */
    COLUMN_INT,    /* int64_t */
    COLUMN_ENUM,   /* int */
    COLUMN_BOOL,   /* bool */
    COLUMN_BYTES,  /* struct buf */
    COLUMN_LABELS, /* struct label_list */
};

struct column {
    const char *name;
    size_t offset;
    enum column_kind kind;
    bool is_changed; /* whether table_update() changes it */
};

#define COLUMN_OF(row, field, kind_of)                                                                                         \
    {                                                                                                                          \
        .name = #field, .kind = COLUMN_##kind_of, .offset = offsetof(struct row, field)                                        \
    }
#define CHANGED_COLUMN_OF(row, field, kind_of)                                                                                 \
    {                                                                                                                          \
        .name = #field, .offset = offsetof(struct row, field), .kind = COLUMN_##kind_of, .is_changed = true                    \
    }

struct table {
    const char *name;
    const char *noun;                /* for messages: "sandbox" */
    const char *id_prefix;           /* of ids, if the first column is one */
    bool (*is_id)(const char *text); /* checks ids that may have other forms than prefix and digits. NULL: there are none */
    size_t created_offset;           /* of created_ns, if the row has one */
    const struct column *columns;
    size_t count;
    size_t row_size;
};

#define QUERY_KEPT_MAX 16

/* A statement and its parameters, both built in steps. */
struct query {
    struct buf text;
    struct db_value values[DB_VALUES_MAX];
    size_t count;
    struct buf kept[QUERY_KEPT_MAX]; /* owned: values that have no other owner */
    size_t kept_count;
};

#define QUERY_EMPTY ((struct query){ .count = 0 })

void query_done(struct query *query);
/* Adds the text and the value's number: query_add(q, " AND owner_id = ", db_text(owner)). */
void query_add(struct query *query, const char *text, struct db_value value);
void query_add_text(struct query *query, const char *text);
/* The same for a filter. Adds nothing if the value is NULL. */
void query_match_text(struct query *query, const char *text, const char *value);
void query_match_path(struct query *query, const char *text, const char *path);
/* Copies a text for the lifetime of the query and returns it as a value. At most QUERY_KEPT_MAX. */
struct db_value query_keep(struct query *query, const char *text, size_t len);
int query_run(struct query *query, struct db *db, db_row_fn fn, void *cookie, struct err *err);

/* Frees what a row owns and zeroes it. */
void table_done_row(const struct table *table, void *row);
/* Frees each row of an array, and the array. */
void table_done_rows(const struct table *table, void *rows, size_t count);

/* Checks that the row's texts are valid UTF-8 and not too large. Call it before a transaction. ERR_INVALID_ARGUMENT. */
int table_check(const struct table *table, const void *row, struct err *err);

/* Adds "SELECT <all columns> FROM <table>". */
void table_select(const struct table *table, struct query *query);

/* -EEXIST with a text that names the row by `id`. */
int table_insert(const struct table *table, struct db *db, const void *row, const char *id, struct err *err);

/* Adds "UPDATE <table> SET <each changed column> = ...". The caller continues with " WHERE". */
void table_update(const struct table *table, const void *row, struct query *query);

/* The rows of a query that began with table_select(). */
struct table_rows {
    const struct table *table;
    char *rows; /* owned: an array of the table's struct */
    size_t count;
    size_t cap;
};

void table_rows_done(struct table_rows *rows);
int table_collect(struct table_rows *rows, struct query *query, struct db *db, struct err *err);

/* Returns one row in `ret_row`, or -ENOENT: "there is no <noun> '<id>'". */
int table_get(const struct table *table, struct query *query, struct db *db, const char *id, void *ret_row, struct err *err);
int table_not_found(const struct table *table, const char *id, struct err *err);
