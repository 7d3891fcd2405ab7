#include "store/session_row.h"

#include <errno.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/mem.h"
#include "store/row.h"
#include "store/txn.h"

static const struct column columns[] = {
    COLUMN_OF(session_row, id, TEXT),       COLUMN_OF(session_row, sandbox_id, TEXT), COLUMN_OF(session_row, host_id, TEXT),
    COLUMN_OF(session_row, shell, TEXT),    COLUMN_OF(session_row, status, ENUM),     COLUMN_OF(session_row, created_ns, INT),
    COLUMN_OF(session_row, closed_ns, INT),
};

static const struct table sessions = {
    .name = "sessions",
    .noun = "session",
    .id_prefix = SESSION_ID_PREFIX,
    .created_offset = offsetof(struct session_row, created_ns),
    .columns = columns,
    .count = ARRAY_LEN(columns),
    .row_size = sizeof(struct session_row),
};

void session_row_done(struct session_row *row)
{
    table_done_row(&sessions, row);
}

void session_rows_done(struct session_rows *rows)
{
    table_done_rows(&sessions, rows->rows, rows->count);
    free(rows->next_token);
    *rows = (struct session_rows){ 0 };
}

/* ---- insert, get ---- */

int session_row_insert(struct store *store, const struct session_row *row, struct err *err)
{
    int r = row_insert(store, STORE_CALL_SESSION_INSERT, &sessions, row, err);

    if (r == -ENOLINK)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no sandbox '%s'", row->sandbox_id);
    return r;
}

int session_row_get(struct store *store, const char *id, struct session_row *ret, struct err *err)
{
    return row_get(store, STORE_CALL_SESSION_GET, &sessions, id, ret, err);
}

/* ---- list ---- */

int session_row_list(struct store *store, const char *sandbox_id, const char *host_id, enum session_status status,
                     const struct store_page *page, struct session_rows *ret, struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;
    int r;

    r = row_list_begin(&sessions, page, &query, err);
    if (r < 0)
        return r;
    query_match_text(&query, " AND sandbox_id = ", sandbox_id);
    query_match_text(&query, " AND host_id = ", host_id);
    if (status != SESSION_STATUS_UNSPECIFIED)
        query_add(&query, " AND status = ", db_int(status));
    return row_list_end(store, STORE_CALL_SESSION_LIST, &sessions, page, &query, &ret->rows, &ret->count, &ret->next_token,
                        err);
}

/* ---- closing ---- */

struct closing {
    const char *id, *sandbox_id, *host_id;
    int64_t now_ns;
};

static int session_close_one(struct db *db, void *cookie, struct err *err)
{
    const struct closing *c = cookie;
    int64_t there = 0;
    int r = db_run(db, "UPDATE sessions SET status = 2, closed_ns = $1 WHERE id = $2 AND status = 1",
                   DB_VALUES(db_int(c->now_ns), db_text(c->id)), NULL, NULL, err);

    if (r != 0)
        return r < 0 ? r : 0;
    r = db_run_int(db, "SELECT count(*) FROM sessions WHERE id = $1", DB_VALUES(db_text(c->id)), &there, err);
    if (r < 0)
        return r;
    return there ? err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "session '%s' is closed", c->id)
                 : table_not_found(&sessions, c->id, err);
}

int session_row_close(struct store *store, const char *id, int64_t now_ns, struct err *err)
{
    struct closing c = { .id = id, .now_ns = now_ns };

    if (!id_is_valid(SESSION_ID_PREFIX, id))
        return table_not_found(&sessions, id, err);
    return txn_write(store, STORE_CALL_SESSION_CLOSE, TXN_ONE_STATEMENT, session_close_one, &c, err);
}

static int session_close_all(struct db *db, void *cookie, struct err *err)
{
    const struct closing *c = cookie;

    if (c->sandbox_id)
        return db_run(db, "UPDATE sessions SET status = 2, closed_ns = $1 WHERE sandbox_id = $2 AND status = 1",
                      DB_VALUES(db_int(c->now_ns), db_text(c->sandbox_id)), NULL, NULL, err);
    return db_run(db, "UPDATE sessions SET status = 2, closed_ns = $1 WHERE host_id = $2 AND status = 1",
                  DB_VALUES(db_int(c->now_ns), db_text(c->host_id)), NULL, NULL, err);
}

int session_row_close_all(struct store *store, const char *sandbox_id, const char *host_id, int64_t now_ns, struct err *err)
{
    struct closing c = { .sandbox_id = sandbox_id, .host_id = host_id, .now_ns = now_ns };

    return txn_write(store, STORE_CALL_SESSION_CLOSE, TXN_ONE_STATEMENT | TXN_REPEATABLE, session_close_all, &c, err);
}

struct trimming {
    const char *host_id;
    int64_t before_ns;
    unsigned limit;
};

static int session_trim(struct db *db, void *cookie, struct err *err)
{
    const struct trimming *t = cookie;

    return db_run(db,
                  "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions"
                  " WHERE host_id = $1 AND status = 2 AND closed_ns < $2 LIMIT $3)",
                  DB_VALUES(db_text(t->host_id), db_int(t->before_ns), db_int(t->limit)), NULL, NULL, err);
}

int session_row_trim(struct store *store, const char *host_id, int64_t closed_before_ns, unsigned limit, struct err *err)
{
    struct trimming t = { .host_id = host_id, .before_ns = closed_before_ns, .limit = limit };

    return txn_write(store, STORE_CALL_SESSION_TRIM, TXN_ONE_STATEMENT | TXN_REPEATABLE, session_trim, &t, err);
}
