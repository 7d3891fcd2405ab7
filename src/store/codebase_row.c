#include "store/codebase_row.h"

#include <errno.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/mem.h"
#include "store/row.h"
#include "store/sandbox_row.h"
#include "store/txn.h"

static const struct column columns[] = {
    COLUMN_OF(codebase_row, id, TEXT),      COLUMN_OF(codebase_row, name, TEXT),      COLUMN_OF(codebase_row, owner_id, TEXT),
    COLUMN_OF(codebase_row, host_id, TEXT), COLUMN_OF(codebase_row, size_bytes, INT), COLUMN_OF(codebase_row, file_count, INT),
    COLUMN_OF(codebase_row, version, INT),  COLUMN_OF(codebase_row, created_ns, INT), COLUMN_OF(codebase_row, updated_ns, INT),
};

static const struct table codebases = {
    .name = "codebases",
    .noun = "codebase",
    .id_prefix = CODEBASE_ID_PREFIX,
    .created_offset = offsetof(struct codebase_row, created_ns),
    .columns = columns,
    .count = ARRAY_LEN(columns),
    .row_size = sizeof(struct codebase_row),
};

void codebase_row_done(struct codebase_row *row)
{
    table_done_row(&codebases, row);
}

void codebase_rows_done(struct codebase_rows *rows)
{
    table_done_rows(&codebases, rows->rows, rows->count);
    free(rows->next_token);
    *rows = (struct codebase_rows){ 0 };
}

/* ---- insert, get ---- */

int codebase_row_insert(struct store *store, const struct codebase_row *row, struct err *err)
{
    return row_insert(store, STORE_CALL_CODEBASE_INSERT, &codebases, row, err);
}

int codebase_row_get(struct store *store, const char *id, struct codebase_row *ret, struct err *err)
{
    return row_get(store, STORE_CALL_CODEBASE_GET, &codebases, id, ret, err);
}

/* ---- list ---- */

int codebase_row_list(struct store *store, const char *owner_id, const char *host_id, const struct store_page *page,
                      struct codebase_rows *ret, struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;
    int r;

    r = row_list_begin(&codebases, page, &query, err);
    if (r < 0)
        return r;
    query_match_text(&query, " AND owner_id = ", owner_id);
    query_match_text(&query, " AND host_id = ", host_id);
    return row_list_end(store, STORE_CALL_CODEBASE_LIST, &codebases, page, &query, &ret->rows, &ret->count, &ret->next_token,
                        err);
}

/* ---- update, delete ---- */

static int codebase_update(struct db *db, void *cookie, struct err *err)
{
    const struct codebase_row *row = cookie;
    int64_t there = 0;
    int r = db_run(db,
                   "UPDATE codebases SET size_bytes = $1, file_count = $2, version = $3, updated_ns = $4"
                   " WHERE id = $5 AND version <= $3",
                   DB_VALUES(db_int(row->size_bytes), db_int(row->file_count), db_int(row->version), db_int(row->updated_ns),
                             db_text(row->id)),
                   NULL, NULL, err);

    if (r != 0)
        return r < 0 ? r : 0;
    r = db_run_int(db, "SELECT count(*) FROM codebases WHERE id = $1", DB_VALUES(db_text(row->id)), &there, err);
    return r < 0 || there ? r : table_not_found(&codebases, row->id, err);
}

int codebase_row_update(struct store *store, const struct codebase_row *row, struct err *err)
{
    return txn_write(store, STORE_CALL_CODEBASE_UPDATE, TXN_ONE_STATEMENT | TXN_REPEATABLE, codebase_update, (void *) row, err);
}

struct deleting {
    const char *id;
    bool force;
};

int codebase_row_hold(struct db *db, const char *id, struct err *err)
{
    autofree char *text = xprintf("SELECT version FROM codebases WHERE id = $1%s", db->driver->for_share);
    int r = db_run(db, text, DB_VALUES(db_text(id)), NULL, NULL, err);

    if (r == 0)
        return table_not_found(&codebases, id, err);
    return r < 0 ? r : 0;
}

/* Locks the row first. A starting sandbox locks it, too (sandbox_move.c), so one of the two transactions sees the other. */
static int codebase_check_unused(struct db *db, const char *id, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int64_t users = 0;
    int r;

    buf_addf(&text, "SELECT version FROM codebases WHERE id = $1%s", db->driver->for_update);
    r = db_run(db, text.data, DB_VALUES(db_text(id)), NULL, NULL, err);
    if (r <= 0)
        return r < 0 ? r : table_not_found(&codebases, id, err);
    buf_clear(&text);
    buf_addf(&text, "SELECT count(*) FROM sandboxes WHERE codebase_id = $1 AND status IN (%d, %d, %d)", SANDBOX_STATUS_STARTING,
             SANDBOX_STATUS_RUNNING, SANDBOX_STATUS_STOPPING);
    r = db_run_int(db, text.data, DB_VALUES(db_text(id)), &users, err);
    if (r < 0 || users == 0)
        return r;
    return err_set(err, ERR_FAILED_PRECONDITION, -ENOTEMPTY, "codebase '%s' is in use by %lld running sandbox%s", id,
                   (long long) users, users == 1 ? "" : "es");
}

static int codebase_delete(struct db *db, void *cookie, struct err *err)
{
    const struct deleting *d = cookie;
    int r = d->force ? 0 : codebase_check_unused(db, d->id, err);

    if (r < 0)
        return r;
    r = db_run(db, "DELETE FROM codebases WHERE id = $1", DB_VALUES(db_text(d->id)), NULL, NULL, err);
    if (r == 0)
        return table_not_found(&codebases, d->id, err);
    return r < 0 ? r : 0;
}

int codebase_row_delete(struct store *store, const char *id, bool force, struct err *err)
{
    struct deleting d = { .id = id, .force = force };

    if (!id_is_valid(CODEBASE_ID_PREFIX, id))
        return table_not_found(&codebases, id, err);
    return txn_write(store, STORE_CALL_CODEBASE_DELETE, 0, codebase_delete, &d, err);
}
