#include "store/sandbox_row.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/row.h"
#include "store/sandbox_row_int.h"
#include "store/txn.h"

#define FILTER_LABELS_MAX 8
#define FILTER_TAGS_MAX 8 /* tags and labels together must fit into QUERY_KEPT_MAX */
#define TOUCH_EVERY_NS CLOCK_NS_PER_SEC

static const struct column columns[] = {
    COLUMN_OF(sandbox_row, id, TEXT),
    CHANGED_COLUMN_OF(sandbox_row, name, TEXT),
    CHANGED_COLUMN_OF(sandbox_row, owner_id, TEXT),
    COLUMN_OF(sandbox_row, host_id, TEXT),
    COLUMN_OF(sandbox_row, codebase_id, TEXT),
    CHANGED_COLUMN_OF(sandbox_row, scope_path, PATH),
    CHANGED_COLUMN_OF(sandbox_row, project_root, PATH),
    CHANGED_COLUMN_OF(sandbox_row, reserved_paths, PATHS),
    CHANGED_COLUMN_OF(sandbox_row, no_lock, BOOL),
    COLUMN_OF(sandbox_row, status, ENUM),
    COLUMN_OF(sandbox_row, decision, ENUM),
    COLUMN_OF(sandbox_row, reason, TEXT),
    COLUMN_OF(sandbox_row, restarts, BOOL),
    COLUMN_OF(sandbox_row, creator, TEXT),
    COLUMN_OF(sandbox_row, creator_type, TEXT),
    CHANGED_COLUMN_OF(sandbox_row, rules, BYTES),
    CHANGED_COLUMN_OF(sandbox_row, preset, TEXT),
    CHANGED_COLUMN_OF(sandbox_row, labels, LABELS),
    CHANGED_COLUMN_OF(sandbox_row, tags, TEXT),
    CHANGED_COLUMN_OF(sandbox_row, metadata, TEXT),
    CHANGED_COLUMN_OF(sandbox_row, behavior, TEXT),
    CHANGED_COLUMN_OF(sandbox_row, runtime, ENUM),
    CHANGED_COLUMN_OF(sandbox_row, driver, TEXT),
    CHANGED_COLUMN_OF(sandbox_row, image, TEXT),
    CHANGED_COLUMN_OF(sandbox_row, memory_bytes, INT),
    CHANGED_COLUMN_OF(sandbox_row, cpu_quota, INT),
    CHANGED_COLUMN_OF(sandbox_row, cpu_shares, INT),
    CHANGED_COLUMN_OF(sandbox_row, pids_limit, INT),
    CHANGED_COLUMN_OF(sandbox_row, disk_bytes, INT),
    CHANGED_COLUMN_OF(sandbox_row, network, TEXT),
    CHANGED_COLUMN_OF(sandbox_row, sync_on_completion, BOOL),
    CHANGED_COLUMN_OF(sandbox_row, base_commit, TEXT),
    COLUMN_OF(sandbox_row, idempotency_key, TEXT),
    CHANGED_COLUMN_OF(sandbox_row, extra, BYTES),
    COLUMN_OF(sandbox_row, size_bytes, INT),
    COLUMN_OF(sandbox_row, file_count, INT),
    COLUMN_OF(sandbox_row, created_ns, INT),
    COLUMN_OF(sandbox_row, started_ns, INT),
    COLUMN_OF(sandbox_row, used_ns, INT),
    CHANGED_COLUMN_OF(sandbox_row, updated_ns, INT),
    COLUMN_OF(sandbox_row, stopped_ns, INT),
    COLUMN_OF(sandbox_row, approved_ns, INT),
    COLUMN_OF(sandbox_row, closed_ns, INT),
    COLUMN_OF(sandbox_row, deleted_ns, INT),
    CHANGED_COLUMN_OF(sandbox_row, expires_ns, INT),
    COLUMN_OF(sandbox_row, row_version, INT),
};

const struct table sandbox_table = {
    .name = "sandboxes",
    .noun = "sandbox",
    .id_prefix = SANDBOX_ID_PREFIX,
    .is_id = sandbox_id_is_valid,
    .created_offset = offsetof(struct sandbox_row, created_ns),
    .columns = columns,
    .count = ARRAY_LEN(columns),
    .row_size = sizeof(struct sandbox_row),
};

void sandbox_row_done(struct sandbox_row *row)
{
    table_done_row(&sandbox_table, row);
}

void sandbox_rows_done(struct sandbox_rows *rows)
{
    table_done_rows(&sandbox_table, rows->rows, rows->count);
    free(rows->next_token);
    *rows = (struct sandbox_rows){ 0 };
}

/* ---- list and count ---- */

static void query_add_bits(struct query *query, const char *before, unsigned bits)
{
    for (int i = 0; i < (int) (CHAR_BIT * sizeof(bits)); i++) {
        if (bits & 1u << i) {
            buf_addf(&query->text, "%s%d", before, i);
            before = ", ";
        }
    }
    query_add_text(query, ")");
}

/* A label matches if removing its text changes the column. replace() is the only suitable function that both databases have. */
static int sandbox_add_label_filter(struct query *query, const struct label_list *labels, struct err *err)
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

/* The column holds a compact JSON array. With commas before the first and after the last tag, a tag is found as its JSON text
 * between commas. Quotes inside tags are escaped, so a part of a tag never matches. */
#define TAGS_BETWEEN_COMMAS "CASE WHEN length(tags) > 2 THEN ',' || substr(tags, 2, length(tags) - 2) || ',' ELSE '' END"

static int sandbox_add_tag_filter(struct query *query, const char *const *tags, size_t count, struct err *err)
{
    if (count > FILTER_TAGS_MAX)
        return err_invalid(err, "a list can be restricted by at most %d tags", FILTER_TAGS_MAX);
    for (size_t i = 0; i < count; i++) {
        json_t *tag = json_string(tags[i]);
        autofree char *text = tag ? json_dumps(tag, JSON_ENCODE_ANY) : NULL;

        json_decref(tag);
        /* The JSON text of "," also occurs between any two tags. */
        if (!text || strcmp(tags[i], ",") == 0)
            return err_reject(err, -EINVAL, tags[i], "is a tag that lists cannot be restricted by");
        autofree char *pattern = xprintf(",%s,", text);
        query_add(query, " AND replace(" TAGS_BETWEEN_COMMAS ", ", query_keep(query, pattern, strlen(pattern)));
        query_add_text(query, ", '') <> " TAGS_BETWEEN_COMMAS);
    }
    return 0;
}

static int sandbox_add_conditions(struct query *query, const struct sandbox_filter *filter, struct err *err)
{
    int r;

    if (!filter)
        return 0;
    query_match_text(query, " AND owner_id = ", filter->owner_id);
    query_match_text(query, " AND codebase_id = ", filter->codebase_id);
    query_match_text(query, " AND host_id = ", filter->host_id);
    query_match_text(query, " AND name = ", filter->name);
    query_match_text(query, " AND creator = ", filter->creator);
    query_match_path(query, " AND project_root = ", filter->project_root);
    query_match_path(query, " AND scope_path = ", filter->scope_path);
    if (filter->base)
        query_add_text(query, filter->base == SANDBOX_BASE_CODEBASE ? " AND codebase_id <> ''" : " AND codebase_id = ''");
    if (filter->statuses)
        query_add_bits(query, " AND status IN (", filter->statuses & SANDBOX_STATUS_ANY);
    if (filter->decisions)
        query_add_bits(query, " AND decision IN (", filter->decisions);
    if (filter->states)
        sandbox_row_add_states(query, filter->states);
    if (filter->expires_until_ns)
        query_add(query, " AND expires_ns > 0 AND expires_ns <= ", db_int(filter->expires_until_ns));
    if (filter->labels && (r = sandbox_add_label_filter(query, filter->labels, err)) < 0)
        return r;
    return sandbox_add_tag_filter(query, filter->tags, filter->tag_count, err);
}

int sandbox_row_list(struct store *store, const struct sandbox_filter *filter, const struct store_page *page,
                     struct sandbox_rows *ret, struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;
    int r;

    r = row_list_begin(&sandbox_table, page, &query, err);
    if (r == 0)
        r = sandbox_add_conditions(&query, filter, err);
    if (r < 0)
        return r;
    return row_list_end(store, STORE_CALL_SANDBOX_LIST, &sandbox_table, page, &query, &ret->rows, &ret->count, &ret->next_token,
                        err);
}

static int sandbox_add_window_filter(struct query *query, const void *filter, struct err *err)
{
    query_add_text(query, " WHERE 1 = 1");
    return sandbox_add_conditions(query, filter, err);
}

int sandbox_row_list_window(struct store *store, const struct sandbox_filter *filter, size_t limit, size_t offset,
                            struct sandbox_rows *ret, int64_t *ret_total, struct err *err)
{
    struct row_window window = {
        .table = &sandbox_table,
        .add_filter = sandbox_add_window_filter,
        .filter = filter,
        .order = " ORDER BY created_ns DESC, id DESC",
        .limit = limit,
        .offset = offset,
        .list_call = STORE_CALL_SANDBOX_LIST,
        .count_call = STORE_CALL_SANDBOX_COUNT,
    };

    return row_list_window(store, &window, &ret->rows, &ret->count, ret_total, err);
}

int sandbox_row_count(struct store *store, const struct sandbox_filter *filter, int64_t *ret, struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;
    int r;

    query_add_text(&query, "SELECT count(*) FROM sandboxes WHERE 1 = 1");
    r = sandbox_add_conditions(&query, filter, err);
    return r < 0 ? r : row_count(store, STORE_CALL_SANDBOX_COUNT, &query, ret, err);
}

struct counting {
    struct query *query;
    struct sandbox_count *ret;
};

static int sandbox_take_count(const struct db_value *values, size_t count, void *cookie)
{
    struct sandbox_count *ret = cookie;
    char none[] = "";

    if (count != 5)
        return -EUCLEAN;
    for (size_t i = 0; i < count; i++)
        if (values[i].kind != DB_INT)
            return -EUCLEAN;
    const struct sandbox_row row = { .codebase_id = none,
                                     .status = (int) values[0].number,
                                     .decision = (int) values[1].number,
                                     .deleted_ns = values[2].number };
    struct sandbox_count *one = &ret[sandbox_row_state(&row)];
    one->count += values[3].number;
    one->size_bytes += values[4].number;
    return 0;
}

static int sandbox_count_states(struct db *db, void *cookie, struct err *err)
{
    const struct counting *c = cookie;
    int r;

    memset(c->ret, 0, SANDBOX_STATE_COUNT * sizeof(*c->ret)); /* from an earlier attempt */
    r = query_run(c->query, db, sandbox_take_count, c->ret, err);
    return r < 0 ? r : 0;
}

int sandbox_row_count_states(struct store *store, const struct sandbox_filter *filter,
                             struct sandbox_count ret[SANDBOX_STATE_COUNT], struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;
    int r;

    /* PostgreSQL's sum of BIGINTs is NUMERIC, hence the cast. */
    query_add_text(&query, "SELECT status, decision, CAST(CASE WHEN deleted_ns > 0 THEN 1 ELSE 0 END AS BIGINT), count(*),"
                           " CAST(coalesce(sum(size_bytes), 0) AS BIGINT) FROM sandboxes WHERE 1 = 1");
    r = sandbox_add_conditions(&query, filter, err);
    if (r < 0)
        return r;
    query_add_text(&query, " GROUP BY 1, 2, 3");
    return txn_read(store, STORE_CALL_SANDBOX_COUNT, sandbox_count_states, &(struct counting){ &query, ret }, err);
}

/* ---- update ---- */

static int reject_sandbox_version(struct db *db, const char *id, int64_t wanted, struct err *err)
{
    int64_t version;
    int r = db_run_int(db, "SELECT row_version FROM sandboxes WHERE id = $1", DB_VALUES(db_text(id)), &version, err);

    if (r == -ENOENT)
        return table_not_found(&sandbox_table, id, err);
    if (r < 0)
        return r;
    return err_set_reason(err,
                          err_set(err, ERR_ABORTED, -ESTALE, "sandbox %s was changed meanwhile (version %lld, now %lld)", id,
                                  (long long) wanted, (long long) version),
                          "VERSION_MISMATCH");
}

static int sandbox_update(struct db *db, void *cookie, struct err *err)
{
    const struct sandbox_row *row = cookie;
    autodone(query) struct query query = QUERY_EMPTY;
    int r;

    table_update(&sandbox_table, row, &query);
    query_add(&query, ", row_version = row_version + 1 WHERE id = ", db_text(row->id));
    query_add(&query, " AND row_version = ", db_int(row->row_version));
    r = query_run(&query, db, NULL, NULL, err);
    if (r == 0)
        return reject_sandbox_version(db, row->id, row->row_version, err);
    return r < 0 ? r : 0;
}

int sandbox_row_update(struct store *store, struct sandbox_row *row, struct err *err)
{
    int r = table_check(&sandbox_table, row, err);

    if (r == 0)
        r = txn_write(store, STORE_CALL_SANDBOX_UPDATE, TXN_ONE_STATEMENT, sandbox_update, row, err);
    if (r == 0)
        row->row_version++;
    return r;
}

/* ---- last use and size ---- */

struct note {
    const char *id, *text;
    int64_t a, b;
};

static int sandbox_write_note(struct db *db, void *cookie, struct err *err)
{
    const struct note *note = cookie;
    int r = db_run(db, note->text, DB_VALUES(db_text(note->id), db_int(note->a), db_int(note->b)), NULL, NULL, err);

    return r < 0 ? r : 0;
}

int sandbox_row_touch(struct store *store, const char *id, int64_t now_ns, struct err *err)
{
    struct note note = { id, "UPDATE sandboxes SET used_ns = $2 WHERE id = $1 AND used_ns < $3", now_ns,
                         now_ns - TOUCH_EVERY_NS };

    return txn_write(store, STORE_CALL_SANDBOX_NOTE, TXN_ONE_STATEMENT | TXN_REPEATABLE, sandbox_write_note, &note, err);
}

int sandbox_row_measure(struct store *store, const char *id, int64_t size_bytes, int64_t file_count, struct err *err)
{
    struct note note = { id, "UPDATE sandboxes SET size_bytes = $2, file_count = $3 WHERE id = $1", size_bytes, file_count };

    return txn_write(store, STORE_CALL_SANDBOX_NOTE, TXN_ONE_STATEMENT | TXN_REPEATABLE, sandbox_write_note, &note, err);
}

/* ---- delete ---- */

static int sandbox_delete(struct db *db, void *cookie, struct err *err)
{
    const char *id = cookie;
    int r = db_run(db, "DELETE FROM sandboxes WHERE id = $1", DB_VALUES(db_text(id)), NULL, NULL, err);

    if (r == 0)
        return table_not_found(&sandbox_table, id, err);
    return r < 0 ? r : 0;
}

int sandbox_row_delete(struct store *store, const char *id, struct err *err)
{
    if (!sandbox_id_is_valid(id))
        return table_not_found(&sandbox_table, id, err);
    return txn_write(store, STORE_CALL_SANDBOX_DELETE, TXN_ONE_STATEMENT, sandbox_delete, (void *) id, err);
}
