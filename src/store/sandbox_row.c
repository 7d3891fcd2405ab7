#include "store/sandbox_row.h"

#include <errno.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/mem.h"
#include "store/job.h"
#include "store/row.h"

#define FILTER_LABELS_MAX 8

static const struct column columns[] = {
    COLUMN_OF(sandbox_row, id, TEXT),
    COLUMN_OF(sandbox_row, codebase_id, TEXT),
    COLUMN_OF(sandbox_row, scope_path, PATH),
    COLUMN_OF(sandbox_row, owner_id, TEXT),
    COLUMN_OF(sandbox_row, host_id, TEXT),
    COLUMN_OF(sandbox_row, status, ENUM),
    COLUMN_OF(sandbox_row, reason, TEXT),
    CHANGED_COLUMN_OF(sandbox_row, rules, BYTES),
    CHANGED_COLUMN_OF(sandbox_row, labels, LABELS),
    COLUMN_OF(sandbox_row, runtime, ENUM),
    CHANGED_COLUMN_OF(sandbox_row, image, TEXT),
    CHANGED_COLUMN_OF(sandbox_row, memory_bytes, INT),
    CHANGED_COLUMN_OF(sandbox_row, cpu_quota, INT),
    CHANGED_COLUMN_OF(sandbox_row, cpu_shares, INT),
    CHANGED_COLUMN_OF(sandbox_row, pids_limit, INT),
    CHANGED_COLUMN_OF(sandbox_row, disk_bytes, INT),
    CHANGED_COLUMN_OF(sandbox_row, network, TEXT),
    CHANGED_COLUMN_OF(sandbox_row, sync_on_completion, BOOL),
    CHANGED_COLUMN_OF(sandbox_row, extra, BYTES),
    COLUMN_OF(sandbox_row, created_ns, INT),
    COLUMN_OF(sandbox_row, started_ns, INT),
    COLUMN_OF(sandbox_row, stopped_ns, INT),
    CHANGED_COLUMN_OF(sandbox_row, expires_ns, INT),
    COLUMN_OF(sandbox_row, row_version, INT),
};

static const struct table sandboxes = {
    .name = "sandboxes",
    .noun = "sandbox",
    .id_prefix = SANDBOX_ID_PREFIX,
    .created_offset = offsetof(struct sandbox_row, created_ns),
    .columns = columns,
    .count = ARRAY_LEN(columns),
    .row_size = sizeof(struct sandbox_row),
};

void sandbox_row_done(struct sandbox_row *row)
{
    table_done_row(&sandboxes, row);
}

void sandbox_rows_done(struct sandbox_rows *rows)
{
    table_done_rows(&sandboxes, rows->rows, rows->count);
    free(rows->next_token);
    *rows = (struct sandbox_rows){ 0 };
}

const char *sandbox_status_name(enum sandbox_status status)
{
    static const char *const names[SANDBOX_STATUS_COUNT] = {
        [SANDBOX_STATUS_UNSPECIFIED] = "unknown", [SANDBOX_STATUS_PENDING] = "pending",
        [SANDBOX_STATUS_RUNNING] = "running",     [SANDBOX_STATUS_STOPPED] = "stopped",
        [SANDBOX_STATUS_ERROR] = "error",         [SANDBOX_STATUS_STARTING] = "starting",
        [SANDBOX_STATUS_STOPPING] = "stopping",   [SANDBOX_STATUS_DESTROYING] = "destroying",
    };

    return (unsigned) status < SANDBOX_STATUS_COUNT ? names[status] : "unknown";
}

/* ---- insert ---- */

struct inserting {
    struct sandbox_row *row;
    unsigned max_per_owner;
};

static int check_quota(struct db *db, const char *owner_id, unsigned max, struct err *err)
{
    autofree char *lock = xprintf("owner %s", owner_id);
    int64_t count = 0;
    int r = db->driver->lock(db, lock, err);

    if (r == 0)
        r = db_run_int(db, "SELECT count(*) FROM sandboxes WHERE owner_id = $1", DB_VALUES(db_text(owner_id)), &count, err);
    if (r < 0 || count < max)
        return r;
    return err_set(err, ERR_RESOURCE_EXHAUSTED, -EDQUOT, "you have %lld sandboxes, and %u are allowed; destroy one first",
                   (long long) count, max);
}

static int insert(struct db *db, void *cookie, struct err *err)
{
    const struct inserting *in = cookie;
    const struct sandbox_row *row = in->row;
    int r = row->codebase_id && *row->codebase_id ? codebase_row_hold(db, row->codebase_id, err) : 0;

    if (r == 0 && in->max_per_owner)
        r = check_quota(db, row->owner_id, in->max_per_owner, err);
    return r == 0 ? table_insert(&sandboxes, db, row, row->id, err) : r;
}

int sandbox_row_insert(struct store *store, struct sandbox_row *row, unsigned max_per_owner, struct err *err)
{
    struct inserting in = { .row = row, .max_per_owner = max_per_owner };
    bool alone = !max_per_owner && !(row->codebase_id && *row->codebase_id);
    int r;

    if (!row->owner_id || !*row->owner_id)
        return err_invalid(err, "a sandbox has an owner");
    r = row_check(&sandboxes, row, err);
    if (r < 0)
        return r;
    row->row_version = 1;
    return job_write(store, METER_SANDBOX_INSERT, alone ? JOB_ONE_STATEMENT : 0, insert, &in, err);
}

/* ---- get ---- */

int sandbox_row_get(struct store *store, const char *id, struct sandbox_row *ret, struct err *err)
{
    return row_get(store, METER_SANDBOX_GET, &sandboxes, id, ret, err);
}

/* ---- list and count ---- */

static void add_statuses(struct query *query, unsigned bits)
{
    const char *before = " AND status IN (";

    for (int i = 0; i < SANDBOX_STATUS_COUNT; i++) {
        if (bits & SANDBOX_STATUS_BIT(i)) {
            buf_addf(&query->text, "%s%d", before, i);
            before = ", ";
        }
    }
    query_add_text(query, ")");
}

/* Taking the label's text out makes the labels another text: both databases have replace(), and no other function for this in
 * common. */
static int add_labels(struct query *query, const struct label_list *labels, struct err *err)
{
    if (labels->count > FILTER_LABELS_MAX)
        return err_invalid(err, "a list can be restricted by at most %d labels", FILTER_LABELS_MAX);
    for (size_t i = 0; i < labels->count; i++) {
        autodone(buf) struct buf text = BUF_EMPTY;
        label_add_text(&text, labels->items[i].key, labels->items[i].value);
        query_add(query, " AND replace(labels, ", query_keep(query, text.data, text.len));
        query_add_text(query, ", '') <> labels");
    }
    return 0;
}

static int add_filter(struct query *query, const struct sandbox_filter *filter, struct err *err)
{
    if (!filter)
        return 0;
    query_match_text(query, " AND owner_id = ", filter->owner_id);
    query_match_text(query, " AND codebase_id = ", filter->codebase_id);
    query_match_text(query, " AND host_id = ", filter->host_id);
    if (filter->statuses)
        add_statuses(query, filter->statuses & SANDBOX_STATUS_ANY);
    if (filter->expires_until_ns)
        query_add(query, " AND expires_ns > 0 AND expires_ns <= ", db_int(filter->expires_until_ns));
    return filter->labels ? add_labels(query, filter->labels, err) : 0;
}

int sandbox_row_list(struct store *store, const struct sandbox_filter *filter, const struct store_page *page,
                     struct sandbox_rows *ret, struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;
    int r;

    r = row_list_begin(&sandboxes, page, &query, err);
    if (r == 0)
        r = add_filter(&query, filter, err);
    if (r < 0)
        return r;
    return row_list_end(store, METER_SANDBOX_LIST, &sandboxes, page, &query, &ret->rows, &ret->count, &ret->next_token, err);
}

int sandbox_row_count(struct store *store, const struct sandbox_filter *filter, int64_t *ret, struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;
    int r;

    query_add_text(&query, "SELECT count(*) FROM sandboxes WHERE 1 = 1");
    r = add_filter(&query, filter, err);
    return r < 0 ? r : row_count(store, METER_SANDBOX_COUNT, &query, ret, err);
}

/* ---- update, delete ---- */

static int tell_version(struct db *db, const char *id, int64_t wanted, struct err *err)
{
    int64_t version;
    int r = db_run_int(db, "SELECT row_version FROM sandboxes WHERE id = $1", DB_VALUES(db_text(id)), &version, err);

    if (r == -ENOENT)
        return table_not_found(&sandboxes, id, err);
    if (r < 0)
        return r;
    return err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "sandbox '%s' was changed meanwhile (version %lld, now %lld)", id,
                   (long long) wanted, (long long) version);
}

static int update(struct db *db, void *cookie, struct err *err)
{
    const struct sandbox_row *row = cookie;
    autodone(query) struct query query = QUERY_EMPTY;
    int r;

    table_update(&sandboxes, row, &query);
    query_add(&query, ", row_version = row_version + 1 WHERE id = ", db_text(row->id));
    query_add(&query, " AND row_version = ", db_int(row->row_version));
    r = query_run(&query, db, NULL, NULL, err);
    if (r == 0)
        return tell_version(db, row->id, row->row_version, err);
    return r < 0 ? r : 0;
}

int sandbox_row_update(struct store *store, struct sandbox_row *row, struct err *err)
{
    int r = table_check(&sandboxes, row, err);

    if (r == 0)
        r = job_write(store, METER_SANDBOX_UPDATE, JOB_ONE_STATEMENT, update, row, err);
    if (r == 0)
        row->row_version++;
    return r;
}

static int delete (struct db *db, void *cookie, struct err *err)
{
    const char *id = cookie;
    int r = db_run(db, "DELETE FROM sandboxes WHERE id = $1", DB_VALUES(db_text(id)), NULL, NULL, err);

    if (r == 0)
        return table_not_found(&sandboxes, id, err);
    return r < 0 ? r : 0;
}

int sandbox_row_delete(struct store *store, const char *id, struct err *err)
{
    if (!id_is_valid(SANDBOX_ID_PREFIX, id))
        return table_not_found(&sandboxes, id, err);
    return job_write(store, METER_SANDBOX_DELETE, JOB_ONE_STATEMENT, delete, (void *) id, err);
}
