#include "store/idempotency_row.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "store/row.h"
#include "store/txn.h"

static const struct column columns[] = {
    COLUMN_OF(idempotency_row, owner_id, TEXT),    COLUMN_OF(idempotency_row, idempotency_key, TEXT),
    COLUMN_OF(idempotency_row, method, TEXT),      COLUMN_OF(idempotency_row, hash, BYTES),
    COLUMN_OF(idempotency_row, host_id, TEXT),     COLUMN_OF(idempotency_row, resource_id, TEXT),
    COLUMN_OF(idempotency_row, is_finished, BOOL), COLUMN_OF(idempotency_row, response, BYTES),
    COLUMN_OF(idempotency_row, created_ns, INT),   COLUMN_OF(idempotency_row, expires_ns, INT),
};

static const struct table claims = {
    .name = "claims",
    .noun = "idempotency key",
    .columns = columns,
    .count = ARRAY_LEN(columns),
    .row_size = sizeof(struct idempotency_row),
};

void idempotency_row_done(struct idempotency_row *row)
{
    table_done_row(&claims, row);
}

void idempotency_rows_done(struct idempotency_rows *rows)
{
    table_done_rows(&claims, rows->rows, rows->count);
    *rows = (struct idempotency_rows){ 0 };
}

/* ---- take ---- */

struct taking {
    const struct idempotency_row *row;
    int64_t now_ns;
    enum idempotency_outcome outcome;
    struct idempotency_row there; /* owned */
};

static struct db_value text_or_empty(const char *s)
{
    return db_text(s ? s : "");
}

/* Returns 1 if it inserted the claim, 0 if the key exists. PostgreSQL waits for a concurrent insertion of the same key. */
static int claim_insert(struct db *db, const struct idempotency_row *row, struct err *err)
{
    return db_run(db,
                  "INSERT INTO claims (owner_id, idempotency_key, method, hash, host_id, resource_id, is_finished, response,"
                  " created_ns, expires_ns) VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $8, $9)"
                  " ON CONFLICT (owner_id, idempotency_key) DO NOTHING",
                  DB_VALUES(text_or_empty(row->owner_id), text_or_empty(row->idempotency_key), text_or_empty(row->method),
                            db_bytes(row->hash.data, row->hash.len), text_or_empty(row->host_id),
                            text_or_empty(row->resource_id), db_bytes("", 0), db_int(row->created_ns), db_int(row->expires_ns)),
                  NULL, NULL, err);
}

static int claim_get(struct db *db, const struct idempotency_row *row, struct idempotency_row *ret, struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;

    table_select(&claims, &query);
    query_add(&query, " WHERE owner_id = ", text_or_empty(row->owner_id));
    query_add(&query, " AND idempotency_key = ", text_or_empty(row->idempotency_key));
    query_add_text(&query, db->driver->for_update);
    return table_get(&claims, &query, db, row->idempotency_key, ret, err);
}

static bool is_same_request(const struct idempotency_row *a, const struct idempotency_row *b)
{
    return strcmp(a->method, b->method ? b->method : "") == 0 && a->hash.len == b->hash.len &&
           (a->hash.len == 0 || memcmp(a->hash.data, b->hash.data, a->hash.len) == 0);
}

static int claim_check(const struct taking *t, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    buf_add_excerpt(&shown, t->there.idempotency_key, strlen(t->there.idempotency_key));
    if (!is_same_request(&t->there, t->row))
        return err_set(err, ERR_ALREADY_EXISTS, -EEXIST, "the idempotency key '%s' was used for another request",
                       shown.data ? shown.data : "");
    if (!t->there.is_finished)
        return err_set(err, ERR_ABORTED, -EALREADY, "the request with the idempotency key '%s' is being done; try again later",
                       shown.data ? shown.data : "");
    return 0;
}

/* Another transaction changed the claim between two of our statements. -EBUSY repeats ours. */
static int reject_concurrent_change(struct err *err)
{
    return err_set(err, ERR_UNAVAILABLE, -EBUSY, "the idempotency key is being changed in this moment");
}

/* Replaces an expired claim. */
static int claim_replace(struct db *db, const struct idempotency_row *row, struct err *err)
{
    int r = db_run(db, "DELETE FROM claims WHERE owner_id = $1 AND idempotency_key = $2",
                   DB_VALUES(text_or_empty(row->owner_id), text_or_empty(row->idempotency_key)), NULL, NULL, err);

    if (r >= 0)
        r = claim_insert(db, row, err);
    return r == 0 ? reject_concurrent_change(err) : r;
}

static int claim_take(struct db *db, void *cookie, struct err *err)
{
    struct taking *t = cookie;
    int r = claim_insert(db, t->row, err);

    t->outcome = IDEMPOTENCY_TAKEN;
    if (r != 0)
        return r < 0 ? r : 0;
    idempotency_row_done(&t->there); /* from an earlier attempt */
    r = claim_get(db, t->row, &t->there, err);
    if (r == -ENOENT)
        return reject_concurrent_change(err);
    if (r < 0)
        return r;
    if (t->there.expires_ns <= t->now_ns) {
        r = claim_replace(db, t->row, err);
        return r < 0 ? r : 0;
    }
    t->outcome = IDEMPOTENCY_FINISHED;
    return claim_check(t, err);
}

int idempotency_row_take(struct store *store, const struct idempotency_row *row, int64_t now_ns,
                         enum idempotency_outcome *ret_outcome, struct idempotency_row *ret_row, struct err *err)
{
    struct taking t = { .row = row, .now_ns = now_ns };
    int r;

    if (!row->idempotency_key || !*row->idempotency_key)
        return err_invalid(err, "the idempotency key is empty");
    r = table_check(&claims, row, err);
    if (r == 0)
        r = txn_write(store, STORE_CALL_IDEMPOTENCY_TAKE, 0, claim_take, &t, err);
    if (r == 0)
        *ret_outcome = t.outcome;
    if ((r == 0 && t.outcome == IDEMPOTENCY_FINISHED) || r == -EALREADY)
        *ret_row = t.there;
    else
        idempotency_row_done(&t.there);
    return r;
}

/* ---- finish, release ---- */

struct finishing {
    const char *owner_id, *key;
    const void *response;
    size_t len;
    int64_t expires_ns;
};

static int claim_finish(struct db *db, void *cookie, struct err *err)
{
    const struct finishing *f = cookie;
    int r = db_run(db,
                   "UPDATE claims SET is_finished = 1, response = $1, expires_ns = $2"
                   " WHERE owner_id = $3 AND idempotency_key = $4",
                   DB_VALUES(db_bytes(f->response, f->len), db_int(f->expires_ns), db_text(f->owner_id), db_text(f->key)), NULL,
                   NULL, err);

    if (r == 0)
        return table_not_found(&claims, f->key, err);
    return r < 0 ? r : 0;
}

int idempotency_row_finish(struct store *store, const char *owner_id, const char *idempotency_key, const void *response,
                           size_t len, int64_t expires_ns, struct err *err)
{
    struct finishing f = { owner_id, idempotency_key, response, len, expires_ns };

    if (len > TABLE_BYTES_MAX)
        return err_invalid(err, "the response is too long to be kept: at most %u bytes", TABLE_BYTES_MAX);
    return txn_write(store, STORE_CALL_IDEMPOTENCY_FINISH, TXN_ONE_STATEMENT | TXN_REPEATABLE, claim_finish, &f, err);
}

static int claim_release(struct db *db, void *cookie, struct err *err)
{
    const struct finishing *f = cookie;
    int r = db_run(db, "DELETE FROM claims WHERE owner_id = $1 AND idempotency_key = $2 AND is_finished = 0",
                   DB_VALUES(db_text(f->owner_id), db_text(f->key)), NULL, NULL, err);

    return r < 0 ? r : 0;
}

int idempotency_row_release(struct store *store, const char *owner_id, const char *idempotency_key, struct err *err)
{
    struct finishing f = { .owner_id = owner_id, .key = idempotency_key };

    return txn_write(store, STORE_CALL_IDEMPOTENCY_FINISH, TXN_ONE_STATEMENT | TXN_REPEATABLE, claim_release, &f, err);
}

/* ---- list, trim ---- */

int idempotency_row_list_open(struct store *store, const char *host_id, struct idempotency_rows *ret, struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;
    struct table_rows rows = { .table = &claims };
    int r;

    table_select(&claims, &query);
    query_add(&query, " WHERE is_finished = 0 AND host_id = ", db_text(host_id));
    query_add(&query, " ORDER BY created_ns, owner_id, idempotency_key LIMIT ", db_int(STORE_PAGE_MAX));
    r = row_collect(store, STORE_CALL_IDEMPOTENCY_LIST, &query, &rows, err);
    if (r < 0)
        return r;
    ret->rows = (struct idempotency_row *) rows.rows;
    ret->count = rows.count;
    return 0;
}

struct trimming {
    int64_t now_ns;
    unsigned limit;
};

static int claim_trim(struct db *db, void *cookie, struct err *err)
{
    const struct trimming *t = cookie;

    return db_run(db,
                  "DELETE FROM claims WHERE (owner_id, idempotency_key) IN"
                  " (SELECT owner_id, idempotency_key FROM claims WHERE expires_ns <= $1 ORDER BY expires_ns LIMIT $2)",
                  DB_VALUES(db_int(t->now_ns), db_int(t->limit)), NULL, NULL, err);
}

int idempotency_row_trim(struct store *store, int64_t now_ns, unsigned limit, struct err *err)
{
    struct trimming t = { .now_ns = now_ns, .limit = limit };

    return txn_write(store, STORE_CALL_IDEMPOTENCY_TRIM, TXN_ONE_STATEMENT | TXN_REPEATABLE, claim_trim, &t, err);
}
