/*
 * One connection to a database. SQLite and PostgreSQL have the same interface.
 *
 * This module writes its SQL once, in the common dialect: parameters are $1, $2 and so on, and integers have 64 bits. A
 * caller's data never becomes part of a statement's text. Where the two databases differ, db_driver has the SQL.
 *
 * One thread at a time uses a connection (see pool.h). A failure is an errno that decides what to do next, and a text for
 * people in `err`:
 *
 *     -EEXIST      a row with this key exists
 *     -ENOLINK     a row that this one refers to does not exist
 *     -EBUSY       another transaction won, nothing was done: try again
 *     -ECONNRESET  the connection is lost; db->is_lost. The statement may have been executed
 *     -ECONNABORTED  the connection is lost, and the statement had not been sent
 *     -ETIMEDOUT   the database took too long, nothing was done
 *     -ENOSPC      no space
 *     -EUCLEAN     the database is damaged
 *     others       a bug of ours, or a failure of the machine
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"

#define DB_VALUES_MAX 512 /* parameters of a statement */
#define DB_COLUMNS_MAX 64 /* columns of a result */
#define DB_STATEMENTS_MAX 64

enum db_kind { DB_INT, DB_TEXT, DB_BYTES };

/* A parameter, or a column of a row. Bytes are borrowed: for the call, or until the row function returns. */
struct db_value {
    enum db_kind kind;
    bool is_null;
    int64_t number;
    const void *bytes;
    size_t len;
};

static inline struct db_value db_int(int64_t number)
{
    return (struct db_value){ .kind = DB_INT, .number = number };
}

static inline struct db_value db_text(const char *s)
{
    return (struct db_value){ .kind = DB_TEXT, .is_null = !s, .bytes = s, .len = s ? strlen(s) : 0 };
}

static inline struct db_value db_bytes(const void *bytes, size_t len)
{
    return (struct db_value){ .kind = DB_BYTES, .bytes = bytes ? bytes : "", .len = len };
}

#define DB_NO_VALUES NULL, 0
#define DB_VALUES(...)                                                                                                         \
    ((const struct db_value[]){ __VA_ARGS__ }), sizeof((struct db_value[]){ __VA_ARGS__ }) / sizeof(struct db_value)

/* Called for each row. A negative errno ends the iteration and becomes the call's result. */
typedef int (*db_row_fn)(const struct db_value *columns, size_t count, void *cookie);

/* A statement prepared on this connection. */
struct db_statement {
    char *text; /* owned */
    uint64_t hash;
    uint64_t used; /* the value of db.calls at its last use */
    void *handle;  /* the driver's */
};

struct db {
    const struct db_driver *driver;
    bool is_lost; /* it can only be closed */
    bool in_transaction;
    uint64_t calls;
    size_t statement_count;
    struct db_statement statements[DB_STATEMENTS_MAX];
};

struct db_config {
    char *address; /* owned: a path or a URL. May hold a password */
    char *shown;   /* owned: the same without a password, for messages */
    int busy_timeout_ms;
    int statement_timeout_ms;
    bool skip_check;
};

enum db_role { DB_READER, DB_WRITER };

struct db_driver {
    const char *name;
    bool one_writer;          /* writers would only wait for each other, so they share one connection and its commits (txn.c) */
    const char *begin_write;  /* SQL */
    const char *for_share;    /* SQL after a SELECT in a transaction: the row stays unchanged until the end */
    const char *for_update;   /* the same, and no other transaction can lock the row */
    const char *count_tables; /* SQL: counts the tables named $1 */

    int (*connect)(const struct db_config *config, enum db_role role, struct db **ret, struct err *err);
    void (*close)(struct db *db);
    bool (*is_stale)(struct db *db); /* whether the server closed an idle connection */

    /* Checks at start, before any write, that the database is intact and ours. */
    int (*inspect)(struct db *db, const struct db_config *config, struct err *err);
    /* Prepares the database for the first table. */
    int (*settle)(struct db *db, struct err *err);

    int (*prepare)(struct db *db, const char *text, const struct db_value *values, size_t count, void **ret, struct err *err);
    void (*drop)(struct db *db, void *handle);
    int (*run)(struct db *db, void *handle, const struct db_value *values, size_t count, db_row_fn fn, void *cookie,
               struct err *err);
    int (*script)(struct db *db, const char *text, struct err *err);
    /* Locks this name until the end of the transaction. */
    int (*lock)(struct db *db, const char *name, struct err *err);
};

extern const struct db_driver db_sqlite;
extern const struct db_driver db_postgres;

/* Runs one statement. Returns how many rows it changed or, for a query, how many it returned. `fn` may be NULL. */
int db_run(struct db *db, const char *text, const struct db_value *values, size_t count, db_row_fn fn, void *cookie,
           struct err *err);

/* Returns the first column, a number, of the first row. -ENOENT if there are no rows. */
int db_run_int(struct db *db, const char *text, const struct db_value *values, size_t count, int64_t *ret, struct err *err);

/* Runs several statements without parameters. The text is ours, never a caller's. */
int db_script(struct db *db, const char *text, struct err *err);

/* If db_commit() returns -ECONNRESET, the commit may have happened; after any other error it has not. db_rollback() cannot
 * fail: if it cannot roll back, it gives up the connection, which has the same effect. */
int db_begin(struct db *db, struct err *err);
int db_commit(struct db *db, struct err *err);
void db_rollback(struct db *db);

void db_close(struct db *db);
DEFINE_AUTOPTR(db, db_close);

/* For drivers: frees all prepared statements. */
void db_drop_statements(struct db *db);

void db_config_done(struct db_config *config);
