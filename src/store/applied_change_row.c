#include "store/applied_change_row.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/row.h"
#include "store/txn.h"

#define IDS_PER_STATEMENT 64

static const struct column columns[] = {
    COLUMN_OF(applied_change_row, id, TEXT),           COLUMN_OF(applied_change_row, approval_id, TEXT),
    COLUMN_OF(applied_change_row, sandbox_id, TEXT),   COLUMN_OF(applied_change_row, owner_id, TEXT),
    COLUMN_OF(applied_change_row, host_id, TEXT),      COLUMN_OF(applied_change_row, creator, TEXT),
    COLUMN_OF(applied_change_row, creator_type, TEXT), COLUMN_OF(applied_change_row, actor, TEXT),
    COLUMN_OF(applied_change_row, file_path, PATH),    COLUMN_OF(applied_change_row, relative_path, PATH),
    COLUMN_OF(applied_change_row, project_root, PATH), COLUMN_OF(applied_change_row, change_type, TEXT),
    COLUMN_OF(applied_change_row, size_bytes, INT),    COLUMN_OF(applied_change_row, mode, INT),
    COLUMN_OF(applied_change_row, content_hash, TEXT), COLUMN_OF(applied_change_row, applied_ns, INT),
    COLUMN_OF(applied_change_row, undone_ns, INT),     COLUMN_OF(applied_change_row, committed_ns, INT),
    COLUMN_OF(applied_change_row, commit_hash, TEXT),  COLUMN_OF(applied_change_row, commit_message, TEXT),
};

static const struct table changes = {
    .name = "applied_changes",
    .noun = "applied change",
    .columns = columns,
    .count = ARRAY_LEN(columns),
    .row_size = sizeof(struct applied_change_row),
};

void applied_change_row_done(struct applied_change_row *row)
{
    table_done_row(&changes, row);
}

void applied_change_rows_done(struct applied_change_rows *rows)
{
    table_done_rows(&changes, rows->rows, rows->count);
    *rows = (struct applied_change_rows){ 0 };
}

/* ---- insert ---- */

struct inserting {
    const struct applied_change_row *rows;
    size_t count;
};

static int applied_change_insert(struct db *db, void *cookie, struct err *err)
{
    const struct inserting *in = cookie;
    int r = db->driver->lock(db, "applied_changes", err);

    for (size_t i = 0; r == 0 && i < in->count; i++) {
        int64_t known = 0;

        r = db_run_int(db, "SELECT count(*) FROM applied_changes WHERE id = $1", DB_VALUES(db_text(in->rows[i].id)), &known,
                       err);
        if (r >= 0 && known == 0)
            r = table_insert(&changes, db, &in->rows[i], in->rows[i].id, err);
        r = r > 0 ? 0 : r;
    }
    return r;
}

int applied_change_row_insert(struct store *store, const struct applied_change_row *rows, size_t count, struct err *err)
{
    struct inserting in = { .rows = rows, .count = count };
    int r = 0;

    for (size_t i = 0; i < count && r == 0; i++)
        r = !rows[i].id || !*rows[i].id ? err_invalid(err, "an applied change has an id")
                                        : table_check(&changes, &rows[i], err);
    if (r < 0 || count == 0)
        return r;
    return txn_write(store, STORE_CALL_APPLIED_INSERT, TXN_REPEATABLE, applied_change_insert, &in, err);
}

/* ---- list ---- */

static int applied_change_add_filter(struct query *query, const void *of, struct err *err)
{
    const struct applied_change_filter *filter = of;

    (void) err;
    query_add_text(query, filter->only_pending ? " WHERE committed_ns = 0 AND undone_ns = 0" : " WHERE 1 = 1");
    query_match_text(query, " AND owner_id = ", filter->owner_id);
    query_match_text(query, " AND host_id = ", filter->host_id);
    query_match_text(query, " AND sandbox_id = ", filter->sandbox_id);
    query_match_text(query, " AND approval_id = ", filter->approval_id);
    query_match_path(query, " AND project_root = ", filter->project_root);
    query_match_path(query, " AND file_path = ", filter->file_path);
    return 0;
}

int applied_change_row_list(struct store *store, const struct applied_change_filter *filter, size_t limit, size_t offset,
                            struct applied_change_rows *ret, int64_t *ret_total, struct err *err)
{
    struct row_window window = {
        .table = &changes,
        .add_filter = applied_change_add_filter,
        .filter = filter,
        .order = " ORDER BY applied_ns DESC, id DESC",
        .limit = limit,
        .offset = offset,
        .list_call = STORE_CALL_APPLIED_LIST,
        .count_call = STORE_CALL_APPLIED_LIST,
    };

    return row_list_window(store, &window, &ret->rows, &ret->count, ret_total, err);
}

/* ---- commit, undo ---- */

struct committing {
    const char *const *ids;
    size_t count;
    const char *hash, *message;
    int64_t now_ns;
    int done;
};

static int applied_change_commit_some(struct db *db, const struct committing *c, size_t at, struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;

    query_add(&query, "UPDATE applied_changes SET committed_ns = ", db_int(c->now_ns));
    query_add(&query, ", commit_hash = ", db_text(c->hash));
    query_add(&query, ", commit_message = ", db_text(c->message));
    query_add_text(&query, " WHERE committed_ns = 0");
    for (size_t i = at; i < c->count && i < at + IDS_PER_STATEMENT; i++)
        query_add(&query, i == at ? " AND id IN (" : ", ", db_text(c->ids[i]));
    query_add_text(&query, ")");
    return query_run(&query, db, NULL, NULL, err);
}

static int applied_change_commit_all(struct db *db, void *cookie, struct err *err)
{
    struct committing *c = cookie;

    c->done = 0;
    for (size_t at = 0; at < c->count; at += IDS_PER_STATEMENT) {
        int r = applied_change_commit_some(db, c, at, err);

        if (r < 0)
            return r;
        c->done += r;
    }
    return 0;
}

int applied_change_row_commit(struct store *store, const char *const *ids, size_t count, const char *hash, const char *message,
                              int64_t now_ns, struct err *err)
{
    struct committing c = { .ids = ids, .count = count, .hash = hash, .message = message, .now_ns = now_ns };
    int r = count > 0 ? txn_write(store, STORE_CALL_APPLIED_UPDATE, 0, applied_change_commit_all, &c, err) : 0;

    return r < 0 ? r : c.done;
}

struct undoing {
    const char *approval_id;
    int64_t now_ns;
    int done;
};

static int applied_change_undo(struct db *db, void *cookie, struct err *err)
{
    struct undoing *u = cookie;

    u->done = db_run(db, "UPDATE applied_changes SET undone_ns = $1 WHERE approval_id = $2 AND undone_ns = 0",
                     DB_VALUES(db_int(u->now_ns), db_text(u->approval_id)), NULL, NULL, err);
    return u->done < 0 ? u->done : 0;
}

int applied_change_row_undo(struct store *store, const char *approval_id, int64_t now_ns, struct err *err)
{
    struct undoing u = { .approval_id = approval_id, .now_ns = now_ns };
    int r = txn_write(store, STORE_CALL_APPLIED_UPDATE, TXN_ONE_STATEMENT, applied_change_undo, &u, err);

    return r < 0 ? r : u.done;
}
