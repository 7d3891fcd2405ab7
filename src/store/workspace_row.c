#include "store/workspace_row.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "store/job.h"
#include "store/row.h"
#include "store/workspace_row_int.h"

static const struct column columns[] = {
    COLUMN_OF(workspace_row, id, TEXT),
    COLUMN_OF(workspace_row, account_id, TEXT),
    COLUMN_OF(workspace_row, host_id, TEXT),
    COLUMN_OF(workspace_row, scope_path, PATH),
    COLUMN_OF(workspace_row, project_root, PATH),
    COLUMN_OF(workspace_row, reserved_paths, PATHS),
    COLUMN_OF(workspace_row, no_lock, BOOL),
    COLUMN_OF(workspace_row, owner, TEXT),
    COLUMN_OF(workspace_row, owner_type, TEXT),
    COLUMN_OF(workspace_row, status, ENUM),
    COLUMN_OF(workspace_row, reason, TEXT),
    COLUMN_OF(workspace_row, driver, TEXT),
    COLUMN_OF(workspace_row, preset, TEXT),
    COLUMN_OF(workspace_row, rules, BYTES),
    CHANGED_COLUMN_OF(workspace_row, tags, TEXT),
    CHANGED_COLUMN_OF(workspace_row, metadata, TEXT),
    CHANGED_COLUMN_OF(workspace_row, behavior, TEXT),
    COLUMN_OF(workspace_row, idempotency_key, TEXT),
    COLUMN_OF(workspace_row, request_hash, BYTES),
    CHANGED_COLUMN_OF(workspace_row, base_commit, TEXT),
    COLUMN_OF(workspace_row, size_bytes, INT),
    COLUMN_OF(workspace_row, file_count, INT),
    COLUMN_OF(workspace_row, created_ns, INT),
    COLUMN_OF(workspace_row, used_ns, INT),
    COLUMN_OF(workspace_row, updated_ns, INT),
    COLUMN_OF(workspace_row, stopped_ns, INT),
    COLUMN_OF(workspace_row, approved_ns, INT),
    COLUMN_OF(workspace_row, closed_ns, INT),
    COLUMN_OF(workspace_row, deleted_ns, INT),
    CHANGED_COLUMN_OF(workspace_row, extra, BYTES),
    COLUMN_OF(workspace_row, row_version, INT),
};

static const struct table workspaces = {
    .name = "workspaces",
    .noun = "sandbox", /* as those who review call it */
    .columns = columns,
    .count = ARRAY_LEN(columns),
    .row_size = sizeof(struct workspace_row),
};

void workspace_row_done(struct workspace_row *row)
{
    table_done_row(&workspaces, row);
}

void workspace_rows_done(struct workspace_rows *rows)
{
    table_done_rows(&workspaces, rows->rows, rows->count);
    *rows = (struct workspace_rows){ 0 };
}

void workspace_conflicts_done(struct workspace_conflicts *conflicts)
{
    for (size_t i = 0; i < conflicts->count; i++) {
        free(conflicts->items[i].account_id);
        free(conflicts->items[i].owner);
        free(conflicts->items[i].path);
        free(conflicts->items[i].wanted);
    }
    free(conflicts->items);
    *conflicts = (struct workspace_conflicts){ 0 };
}

/* ---- filters ---- */

static void add_statuses(struct query *query, unsigned bits)
{
    const char *before = " AND status IN (";

    for (int i = 0; i < WORKSPACE_STATUS_COUNT; i++) {
        if (bits & WORKSPACE_STATUS_BIT(i)) {
            buf_addf(&query->text, "%s%d", before, i);
            before = ", ";
        }
    }
    query_add_text(query, ")");
}

static void add_filter(struct query *query, const void *of)
{
    const struct workspace_filter *filter = of;

    query_add_text(query, " WHERE 1 = 1");
    query_match_text(query, " AND account_id = ", filter->account_id);
    query_match_text(query, " AND host_id = ", filter->host_id);
    query_match_text(query, " AND owner = ", filter->owner);
    query_match_path(query, " AND project_root = ", filter->project_root);
    query_match_path(query, " AND scope_path = ", filter->scope_path);
    if (filter->statuses)
        add_statuses(query, filter->statuses & WORKSPACE_STATUS_ANY);
}

/* ---- insert ---- */

struct inserting {
    struct workspace_row *row;
    struct workspace_insertion *insertion;
};

static int collect(struct db *db, struct query *query, struct table_rows *ret, struct err *err)
{
    *ret = (struct table_rows){ .table = &workspaces };
    return table_collect(ret, query, db, err);
}

/* The key of a request that was made before. */
static int check_key(struct db *db, const struct inserting *in, struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;
    autodone(table_rows) struct table_rows found = { 0 };
    int r;

    if (!in->row->idempotency_key || !*in->row->idempotency_key)
        return 0;
    table_select(&workspaces, &query);
    query_add(&query, " WHERE account_id = ", db_text(in->row->account_id));
    query_add(&query, " AND idempotency_key = ", db_text(in->row->idempotency_key));
    r = collect(db, &query, &found, err);
    if (r < 0 || found.count == 0)
        return r;
    const struct workspace_row *was = (const struct workspace_row *) found.rows;
    if (was->request_hash.len != in->row->request_hash.len ||
        memcmp(was->request_hash.data, in->row->request_hash.data, was->request_hash.len) != 0)
        return err_set_reason(
            err,
            err_set(err, ERR_ALREADY_EXISTS, -EEXIST, "the idempotency key was used for another request, by '%s'", was->id),
            "IDEMPOTENCY_KEY_REUSED");
    snprintf(in->insertion->known_id, sizeof(in->insertion->known_id), "%s", was->id);
    return err_set(err, ERR_ALREADY_EXISTS, -EALREADY, "this was made before");
}

static void meet(struct workspace_conflicts *conflicts, const struct workspace_row *other, const char *has, const char *wanted)
{
    enum workspace_overlap overlap;

    if (strcmp(has, wanted) == 0)
        overlap = WORKSPACE_OVERLAP_EXACT;
    else if (path_is_beneath(has, wanted))
        overlap = WORKSPACE_OVERLAP_ABOVE;
    else if (path_is_beneath(wanted, has))
        overlap = WORKSPACE_OVERLAP_BENEATH;
    else
        return;
    vec_room(&conflicts->items, &conflicts->cap, conflicts->count);
    struct workspace_conflict *conflict = &conflicts->items[conflicts->count++];
    *conflict = (struct workspace_conflict){ .account_id = xdup(other->account_id),
                                             .owner = xdup(other->owner),
                                             .path = xdup(has),
                                             .wanted = xdup(wanted),
                                             .overlap = overlap,
                                             .status = (enum workspace_status) other->status };
    snprintf(conflict->id, sizeof(conflict->id), "%s", other->id);
}

/* Compared here and not by the database: a path may hold what is a wildcard there. */
static int check_paths(struct db *db, const struct inserting *in, struct err *err)
{
    struct workspace_filter filter = { .host_id = in->row->host_id, .statuses = WORKSPACE_STATUS_LOCKING };
    struct workspace_conflicts *conflicts = &in->insertion->conflicts;
    autodone(query) struct query query = QUERY_EMPTY;
    autodone(table_rows) struct table_rows rows = { 0 };
    int r;

    workspace_conflicts_done(conflicts);
    if (in->row->no_lock || !in->row->reserved_paths)
        return 0;
    table_select(&workspaces, &query);
    add_filter(&query, &filter);
    query_add_text(&query, " AND no_lock = 0");
    r = collect(db, &query, &rows, err);
    for (size_t i = 0; r == 0 && i < rows.count; i++) {
        const struct workspace_row *other = (const struct workspace_row *) rows.rows + i;

        for (char **has = other->reserved_paths; has && *has; has++)
            for (char **wanted = in->row->reserved_paths; *wanted; wanted++)
                meet(conflicts, other, *has, *wanted);
    }
    if (r < 0 || conflicts->count == 0)
        return r;
    return err_set_reason(err,
                          err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "'%s' overlaps '%s', which sandbox %s has reserved",
                                  conflicts->items[0].wanted, conflicts->items[0].path, conflicts->items[0].id),
                          "SCOPE_CONFLICT");
}

static int check_count(struct db *db, const struct inserting *in, struct err *err)
{
    int64_t count = 0;
    int r;

    if (!in->insertion->max)
        return 0;
    r = db_run_int(db, "SELECT count(*) FROM workspaces WHERE host_id = $1 AND status <> $2",
                   DB_VALUES(db_text(in->row->host_id), db_int(WORKSPACE_STATUS_DELETED)), &count, err);
    if (r < 0 || count < in->insertion->max)
        return r;
    return err_set_reason(err,
                          err_set(err, ERR_RESOURCE_EXHAUSTED, -EDQUOT, "there are %lld sandboxes, and %u are allowed",
                                  (long long) count, in->insertion->max),
                          "TOO_MANY_SANDBOXES");
}

/* No other is inserted, or comes back, until the transaction ends. */
static int lock_host(struct db *db, const struct workspace_row *row, struct err *err)
{
    autofree char *lock = xprintf("workspaces %s", row->host_id);

    return db->driver->lock(db, lock, err);
}

static int insert(struct db *db, void *cookie, struct err *err)
{
    const struct inserting *in = cookie;
    int r = lock_host(db, in->row, err);

    if (r == 0)
        r = check_key(db, in, err);
    if (r == 0)
        r = check_count(db, in, err);
    if (r == 0)
        r = check_paths(db, in, err);
    return r < 0 ? r : table_insert(&workspaces, db, in->row, in->row->id, err);
}

int workspace_row_insert(struct store *store, struct workspace_row *row, struct workspace_insertion *insertion, struct err *err)
{
    struct inserting in = { .row = row, .insertion = insertion };
    char id[UUID_TEXT_MAX];
    int r;

    if (!row->id || uuid_parse(row->id, id) < 0 || strcmp(id, row->id) != 0)
        return err_invalid(err, "a sandbox has a UUID");
    r = table_check(&workspaces, row, err);
    if (r < 0)
        return r;
    row->row_version = 1;
    return job_write(store, METER_WORKSPACE_INSERT, 0, insert, &in, err);
}

/* ---- get and list ---- */

int workspace_row_get(struct store *store, const char *id, struct workspace_row *ret, struct err *err)
{
    return row_get(store, METER_WORKSPACE_GET, &workspaces, id, ret, err);
}

int workspace_row_check_room(struct db *db, const char *id, bool is_counted, struct workspace_insertion *insertion,
                             struct err *err)
{
    autodone(workspace_row) struct workspace_row row = { 0 };
    autodone(query) struct query query = QUERY_EMPTY;
    struct inserting in = { .row = &row, .insertion = insertion };
    int r;

    table_select(&workspaces, &query);
    query_add(&query, " WHERE id = ", db_text(id));
    r = table_get(&workspaces, &query, db, id, &row, err);
    if (r == 0)
        r = lock_host(db, &row, err);
    if (r == 0 && is_counted)
        r = check_count(db, &in, err);
    return r < 0 ? r : check_paths(db, &in, err);
}

int workspace_row_list(struct store *store, const struct workspace_filter *filter, size_t limit, size_t offset,
                       bool oldest_first, struct workspace_rows *ret, int64_t *ret_total, struct err *err)
{
    struct row_window window = {
        .table = &workspaces,
        .add_filter = add_filter,
        .filter = filter,
        .order = oldest_first ? " ORDER BY created_ns, id" : " ORDER BY created_ns DESC, id DESC",
        .limit = limit,
        .offset = offset,
        .list_call = METER_WORKSPACE_LIST,
        .count_call = METER_WORKSPACE_COUNT,
    };

    return row_list_window(store, &window, &ret->rows, &ret->count, ret_total, err);
}

struct tallying {
    struct query *query;
    struct workspace_count *ret;
};

static int take_count(const struct db_value *values, size_t count, void *cookie)
{
    struct workspace_count *ret = cookie;

    if (count != 3 || values[0].kind != DB_INT || values[1].kind != DB_INT || values[2].kind != DB_INT)
        return -EUCLEAN;
    if (values[0].number > 0 && values[0].number < WORKSPACE_STATUS_COUNT)
        ret[values[0].number] = (struct workspace_count){ .count = values[1].number, .size_bytes = values[2].number };
    return 0;
}

static int tally(struct db *db, void *cookie, struct err *err)
{
    const struct tallying *t = cookie;
    int r = query_run(t->query, db, take_count, t->ret, err);

    return r < 0 ? r : 0;
}

int workspace_row_count(struct store *store, const struct workspace_filter *filter,
                        struct workspace_count ret[WORKSPACE_STATUS_COUNT], struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;

    memset(ret, 0, WORKSPACE_STATUS_COUNT * sizeof(*ret));
    /* PostgreSQL's sum of 64 bits has more of them. */
    query_add_text(&query, "SELECT status, count(*), CAST(coalesce(sum(size_bytes), 0) AS BIGINT) FROM workspaces");
    add_filter(&query, filter);
    query_add_text(&query, " GROUP BY status");
    return job_read(store, METER_WORKSPACE_COUNT, tally, &(struct tallying){ &query, ret }, err);
}

/* ---- update ---- */

static int update(struct db *db, void *cookie, struct err *err)
{
    const struct workspace_row *row = cookie;
    autodone(query) struct query query = QUERY_EMPTY;
    int r;

    table_update(&workspaces, row, &query);
    query_add(&query, ", updated_ns = ", db_int(row->updated_ns));
    query_add(&query, ", row_version = row_version + 1 WHERE id = ", db_text(row->id));
    query_add(&query, " AND row_version = ", db_int(row->row_version));
    r = query_run(&query, db, NULL, NULL, err);
    if (r == 0)
        return err_set_reason(err,
                              err_set(err, ERR_ABORTED, -ESTALE, "sandbox %s was changed meanwhile, or is not there", row->id),
                              "VERSION_MISMATCH");
    return r < 0 ? r : 0;
}

int workspace_row_update(struct store *store, struct workspace_row *row, struct err *err)
{
    int r = table_check(&workspaces, row, err);

    if (r == 0)
        r = job_write(store, METER_WORKSPACE_UPDATE, JOB_ONE_STATEMENT, update, row, err);
    if (r == 0)
        row->row_version++;
    return r;
}
