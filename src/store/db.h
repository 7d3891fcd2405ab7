/*
 * One connection to a database, SQLite or PostgreSQL behind the same few calls.
 *
 * The room writes its SQL once, in what both understand: parameters are $1, $2 and so on, integers have 64 bits, nothing of a
 * caller's ever becomes part of a statement's text. Where the two differ, a driver has a word for it (db_driver).
 *
 * A connection is used by one thread at a time (see pool.h). Failures come as an errno that says what to do next, with the text
 * for people in `err`:
 *
 *     -EEXIST      a row with this key is there
 *     -ENOLINK     a row that this one refers to is not there
 *     -EBUSY       somebody else was quicker, nothing was done: the same may be tried again
 *     -ECONNRESET  the connection is lost; db->is_lost. Whether the statement was carried out is not known
 *     -ECONNABORTED  the same, and it was not: it had not been sent
 *     -ETIMEDOUT   the database took too long, nothing was done
 *     -ENOSPC      no room
 *     -EUCLEAN     the database is damaged
 *     others       our mistake, or the machine's
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"

#define DB_VALUES_MAX 512 /* parameters of a statement */
#define DB_COLUMNS_MAX 64 /* columns of an answer */
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

/* Called for each row. A negative errno ends it and becomes the call's result. */
typedef int (*db_row_fn)(const struct db_value *columns, size_t count, void *cookie);

/* A statement that was prepared on this connection. */
struct db_statement {
    char *text; /* owned */
    uint64_t hash;
    uint64_t used; /* when, in calls */
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
    char *shown;   /* owned: what is put into messages, without one */
    int busy_timeout_ms;
    int statement_timeout_ms;
    bool skip_check;
};

enum db_role { DB_READER, DB_WRITER };

struct db_driver {
    const char *name;
    bool one_writer;          /* writers would only wait for each other: they share one connection, and commits (job.c) */
    const char *begin_write;  /* SQL */
    const char *for_share;    /* behind a SELECT, within a transaction: the row stays as it is until its end */
    const char *for_update;   /* the same, and nobody else may claim either */
    const char *count_tables; /* SQL: how many tables are called $1 */

    int (*connect)(const struct db_config *config, enum db_role role, struct db **ret, struct err *err);
    void (*close)(struct db *db);
    bool (*is_stale)(struct db *db); /* the other side went away while nobody looked */

    /* Before anything is written at start: is it whole, and ours? */
    int (*inspect)(struct db *db, const struct db_config *config, struct err *err);
    /* What has to be there before the first table. */
    int (*settle)(struct db *db, struct err *err);

    int (*prepare)(struct db *db, const char *text, const struct db_value *values, size_t count, void **ret, struct err *err);
    void (*drop)(struct db *db, void *handle);
    int (*run)(struct db *db, void *handle, const struct db_value *values, size_t count, db_row_fn fn, void *cookie,
               struct err *err);
    int (*script)(struct db *db, const char *text, struct err *err);
    /* Until the end of the transaction nobody else holds this name. */
    int (*lock)(struct db *db, const char *name, struct err *err);
};

extern const struct db_driver db_sqlite;
extern const struct db_driver db_postgres;

/* One statement. Returns how many rows it changed or, when it answers with rows, how many those were. `fn` may be NULL. */
int db_run(struct db *db, const char *text, const struct db_value *values, size_t count, db_row_fn fn, void *cookie,
           struct err *err);

/* The first column of the first row, a number. -ENOENT when there is no row. */
int db_run_int(struct db *db, const char *text, const struct db_value *values, size_t count, int64_t *ret, struct err *err);

/* Several statements without parameters: ours, never a caller's. */
int db_script(struct db *db, const char *text, struct err *err);

/* db_commit() with -ECONNRESET leaves open whether it was done; with any other error it was not. db_rollback() cannot fail:
 * what it cannot take back is lost with the connection. */
int db_begin(struct db *db, struct err *err);
int db_commit(struct db *db, struct err *err);
void db_rollback(struct db *db);

void db_close(struct db *db);
DEFINE_AUTOPTR(db, db_close);

/* For drivers: forget all prepared statements. */
void db_drop_statements(struct db *db);

void db_config_done(struct db_config *config);
