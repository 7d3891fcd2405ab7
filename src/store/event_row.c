#include "store/event_row.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "store/row.h"
#include "store/txn.h"

#define ROWS_PER_STATEMENT 32

static const struct column columns[] = {
    COLUMN_OF(event_row, sequence, INT),    COLUMN_OF(event_row, time_ns, INT),      COLUMN_OF(event_row, type, TEXT),
    COLUMN_OF(event_row, sandbox_id, TEXT), COLUMN_OF(event_row, codebase_id, TEXT), COLUMN_OF(event_row, owner_id, TEXT),
    COLUMN_OF(event_row, host_id, TEXT),    COLUMN_OF(event_row, payload, TEXT),
};

static const struct table events = {
    .name = "events",
    .noun = "event",
    .columns = columns,
    .count = ARRAY_LEN(columns),
    .row_size = sizeof(struct event_row),
};

void event_row_done(struct event_row *row)
{
    table_done_row(&events, row);
}

void event_rows_done(struct event_rows *rows)
{
    table_done_rows(&events, rows->rows, rows->count);
    *rows = (struct event_rows){ 0 };
}

/* ---- append ---- */

struct appending {
    const struct event_row *rows;
    size_t count;
    int64_t last;
};

static struct db_value text_or_empty(const char *s)
{
    return db_text(s ? s : "");
}

static void add_event(struct query *query, const struct event_row *row, const char *before)
{
    query_add_text(query, before);
    query_add(query, "(", db_int(row->time_ns));
    query_add(query, ", ", text_or_empty(row->type));
    query_add(query, ", ", text_or_empty(row->sandbox_id));
    query_add(query, ", ", text_or_empty(row->codebase_id));
    query_add(query, ", ", text_or_empty(row->owner_id));
    query_add(query, ", ", text_or_empty(row->host_id));
    query_add(query, ", ", text_or_empty(row->payload));
    query_add_text(query, ")");
}

static int event_take_last(const struct db_value *values, size_t count, void *cookie)
{
    int64_t *last = cookie;

    if (count != 1 || values[0].kind != DB_INT)
        return -EUCLEAN;
    *last = values[0].number > *last ? values[0].number : *last;
    return 0;
}

static int event_append_some(struct db *db, const struct event_row *rows, size_t count, int64_t *last, struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;
    int r;

    query_add_text(&query, "INSERT INTO events (time_ns, type, sandbox_id, codebase_id, owner_id, host_id, payload) VALUES ");
    for (size_t i = 0; i < count; i++)
        add_event(&query, &rows[i], i ? ", " : "");
    query_add_text(&query, " RETURNING sequence");
    r = query_run(&query, db, event_take_last, last, err);
    return r < 0 ? r : 0;
}

/* Appends one caller at a time: PostgreSQL assigns numbers before the commit, so a larger one could become visible first. */
static int event_append(struct db *db, void *cookie, struct err *err)
{
    struct appending *a = cookie;
    int r = db->driver->lock(db, "events", err);

    a->last = 0;
    for (size_t at = 0; at < a->count && r == 0; at += ROWS_PER_STATEMENT) {
        size_t count = a->count - at < ROWS_PER_STATEMENT ? a->count - at : ROWS_PER_STATEMENT;
        r = event_append_some(db, a->rows + at, count, &a->last, err);
    }
    return r;
}

int event_row_append(struct store *store, const struct event_row *rows, size_t count, int64_t *ret_last, struct err *err)
{
    struct appending a = { .rows = rows, .count = count };
    int r = 0;

    for (size_t i = 0; i < count && r == 0; i++)
        r = table_check(&events, &rows[i], err);
    if (r < 0 || count == 0)
        return r;
    r = txn_write(store, STORE_CALL_EVENT_APPEND, 0, event_append, &a, err);
    if (r == 0 && ret_last)
        *ret_last = a.last;
    return r;
}

/* ---- query ---- */

static void event_add_text_filters(struct query *query, const struct event_filter *f)
{
    query_match_text(query, " AND type = ", f->type);
    query_match_text(query, " AND sandbox_id = ", f->sandbox_id);
    query_match_text(query, " AND codebase_id = ", f->codebase_id);
    query_match_text(query, " AND owner_id = ", f->owner_id);
    query_match_text(query, " AND host_id = ", f->host_id);
}

int event_row_query(struct store *store, const struct event_filter *filter, size_t limit, struct event_rows *ret,
                    struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;
    struct table_rows rows = { .table = &events };
    int r;

    limit = limit > 0 && limit < STORE_PAGE_MAX ? limit : STORE_PAGE_MAX;
    table_select(&events, &query);
    query_add(&query, " WHERE sequence > ", db_int(filter->after));
    if (filter->before)
        query_add(&query, " AND sequence < ", db_int(filter->before));
    if (filter->since_ns)
        query_add(&query, " AND time_ns >= ", db_int(filter->since_ns));
    if (filter->until_ns)
        query_add(&query, " AND time_ns < ", db_int(filter->until_ns));
    event_add_text_filters(&query, filter);
    query_add_text(&query, filter->newest_first ? " ORDER BY sequence DESC" : " ORDER BY sequence");
    query_add(&query, " LIMIT ", db_int((int64_t) limit));
    r = row_collect(store, STORE_CALL_EVENT_QUERY, &query, &rows, err);
    if (r < 0)
        return r;
    ret->rows = (struct event_row *) rows.rows;
    ret->count = rows.count;
    return 0;
}

/* ---- trim ---- */

struct trimming {
    int64_t before_ns, keep;
    unsigned limit;
};

static int event_trim(struct db *db, void *cookie, struct err *err)
{
    const struct trimming *t = cookie;

    return db_run(db,
                  "DELETE FROM events WHERE sequence IN (SELECT sequence FROM"
                  " (SELECT sequence, time_ns FROM events ORDER BY sequence LIMIT $1) AS oldest"
                  " WHERE time_ns < $2 OR ($3 > 0 AND sequence <= (SELECT max(sequence) FROM events) - $3))",
                  DB_VALUES(db_int(t->limit), db_int(t->before_ns), db_int(t->keep)), NULL, NULL, err);
}

int event_row_trim(struct store *store, int64_t before_ns, int64_t keep, unsigned limit, struct err *err)
{
    struct trimming t = { .before_ns = before_ns, .keep = keep, .limit = limit };

    return txn_write(store, STORE_CALL_EVENT_TRIM, TXN_ONE_STATEMENT | TXN_REPEATABLE, event_trim, &t, err);
}
