#include "store/db.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/utf8.h"

static void drop_statement(struct db *db, struct db_statement *s)
{
    db->driver->drop(db, s->handle);
    free(s->text);
    *s = (struct db_statement){ 0 };
}

/* Returns the slot for a new statement. If none is free, drops the least recently used statement. */
static struct db_statement *make_statement_slot(struct db *db)
{
    struct db_statement *oldest = db->statements;

    if (db->statement_count < DB_STATEMENTS_MAX)
        return &db->statements[db->statement_count++];
    for (size_t i = 1; i < db->statement_count; i++) {
        if (db->statements[i].used < oldest->used)
            oldest = &db->statements[i];
    }
    drop_statement(db, oldest);
    return oldest;
}

static int find_statement(struct db *db, const char *text, const struct db_value *values, size_t count, void **ret_handle,
                          struct err *err)
{
    uint64_t hash = hash_text(text);
    struct db_statement *place;
    void *handle = NULL;
    int r;

    db->calls++;
    for (size_t i = 0; i < db->statement_count; i++) {
        struct db_statement *s = &db->statements[i];
        if (s->hash == hash && strcmp(s->text, text) == 0) {
            s->used = db->calls;
            *ret_handle = s->handle;
            return 0;
        }
    }
    r = db->driver->prepare(db, text, values, count, &handle, err);
    if (r < 0)
        return r == -ECONNRESET ? -ECONNABORTED : r;
    place = make_statement_slot(db);
    *place = (struct db_statement){ .text = xdup(text), .hash = hash, .used = db->calls, .handle = handle };
    *ret_handle = handle;
    return 0;
}

/* PostgreSQL would reject invalid UTF-8 and SQLite would accept it, so check before. */
static int check_texts(const struct db_value *values, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind == DB_TEXT && !values[i].is_null && !utf8_is_valid(values[i].bytes, values[i].len))
            return err_invalid(err, "a text is not valid UTF-8");
    }
    return 0;
}

int db_run(struct db *db, const char *text, const struct db_value *values, size_t count, db_row_fn fn, void *cookie,
           struct err *err)
{
    void *handle = NULL;
    int r = check_texts(values, count, err);

    if (r == 0)
        r = find_statement(db, text, values, count, &handle, err);
    return r < 0 ? r : db->driver->run(db, handle, values, count, fn, cookie, err);
}

static int take_int_column(const struct db_value *columns, size_t count, void *cookie)
{
    int64_t *ret = cookie;

    if (count < 1 || columns[0].kind != DB_INT)
        return -EUCLEAN;
    *ret = columns[0].number;
    return 0;
}

int db_run_int(struct db *db, const char *text, const struct db_value *values, size_t count, int64_t *ret, struct err *err)
{
    int r = db_run(db, text, values, count, take_int_column, ret, err);

    if (r == 0)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no such row");
    return r < 0 ? r : 0;
}

int db_script(struct db *db, const char *text, struct err *err)
{
    return db->driver->script(db, text, err);
}

int db_begin(struct db *db, struct err *err)
{
    int r = db_run(db, db->driver->begin_write, DB_NO_VALUES, NULL, NULL, err);

    if (r < 0)
        return r;
    db->in_transaction = true;
    return 0;
}

int db_commit(struct db *db, struct err *err)
{
    int r = db_run(db, "COMMIT", DB_NO_VALUES, NULL, NULL, err);

    if (r < 0) {
        db_rollback(db);
        return r;
    }
    db->in_transaction = false;
    return 0;
}

void db_rollback(struct db *db)
{
    if (db->in_transaction && !db->is_lost && db_run(db, "ROLLBACK", DB_NO_VALUES, NULL, NULL, NULL) < 0)
        db->is_lost = true;
    db->in_transaction = false;
}

void db_drop_statements(struct db *db)
{
    for (size_t i = 0; i < db->statement_count; i++)
        drop_statement(db, &db->statements[i]);
    db->statement_count = 0;
}

void db_close(struct db *db)
{
    if (!db)
        return;
    db->driver->close(db);
}

void db_config_done(struct db_config *config)
{
    free(config->address);
    free(config->shown);
    *config = (struct db_config){ 0 };
}
