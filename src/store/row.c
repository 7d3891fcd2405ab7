#include "store/row.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "store/txn.h"

#define TIME_DIGITS 16
#define ROW_ID_MAX 64
#define REASON_MAX 4096

static const char *row_id(const struct table *table, const void *row)
{
    return *(const char *const *) ((const char *) row + table->columns[0].offset);
}

static bool is_row_id(const struct table *table, const char *text)
{
    return table->is_id ? table->is_id(text) : id_is_valid(table->id_prefix, text);
}

/* ---- one row ---- */

struct inserting {
    const struct table *table;
    const void *row;
};

static int insert_row(struct db *db, void *cookie, struct err *err)
{
    const struct inserting *in = cookie;

    return table_insert(in->table, db, in->row, row_id(in->table, in->row), err);
}

int row_check(const struct table *table, const void *row, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;
    const char *id = row_id(table, row);

    if (id && is_row_id(table, id))
        return table_check(table, row, err);
    buf_add_excerpt(&shown, id ? id : "", id ? strlen(id) : 0);
    return err_invalid(err, "'%s' is no id of a %s", shown.data ? shown.data : "", table->noun);
}

int row_insert(struct store *store, enum store_call call, const struct table *table, const void *row, struct err *err)
{
    struct inserting in = { .table = table, .row = row };
    int r = row_check(table, row, err);

    return r < 0 ? r : txn_write(store, call, TXN_ONE_STATEMENT, insert_row, &in, err);
}

struct getting {
    const struct table *table;
    const char *id;
    void *ret;
};

static int get_row(struct db *db, void *cookie, struct err *err)
{
    const struct getting *g = cookie;
    autodone(query) struct query query = QUERY_EMPTY;

    table_select(g->table, &query);
    query_add(&query, " WHERE id = ", db_text(g->id));
    return table_get(g->table, &query, db, g->id, g->ret, err);
}

int row_get(struct store *store, enum store_call call, const struct table *table, const char *id, void *ret_row,
            struct err *err)
{
    struct getting g = { .table = table, .id = id, .ret = ret_row };

    if (table->id_prefix && !is_row_id(table, id))
        return table_not_found(table, id, err);
    return txn_read(store, call, get_row, &g, err);
}

/* ---- pages ---- */

/* A token is the id of the last row of the page, with its creation time inserted after the prefix. It reveals nothing secret,
 * and another owner's token cannot return rows that the caller's filter excludes. */
static int parse_page_token(const struct table *table, const char *token, int64_t *ret_created, char ret_id[ROW_ID_MAX],
                            struct err *err)
{
    int prefix = (int) strlen(table->id_prefix);
    char time[TIME_DIGITS + 1] = "";

    if (strlen(token) > (size_t) prefix + TIME_DIGITS)
        snprintf(time, sizeof(time), "%s", token + prefix);
    if (strspn(time, "0123456789abcdef") == TIME_DIGITS)
        snprintf(ret_id, ROW_ID_MAX, "%.*s%s", prefix, token, token + prefix + TIME_DIGITS);
    else
        ret_id[0] = '\0';
    if (!is_row_id(table, ret_id))
        return err_invalid(err, "the page token is none of this list's");
    *ret_created = (int64_t) strtoull(time, NULL, 16);
    return 0;
}

static char *make_page_token(const struct table *table, const char *row)
{
    const char *id = row_id(table, row);
    int prefix = (int) strlen(table->id_prefix);
    int64_t created;

    memcpy(&created, row + table->created_offset, sizeof(created));
    return xprintf("%.*s%016" PRIx64 "%s", prefix, id, (uint64_t) created, id + prefix);
}

static size_t page_limit(const struct store_page *page)
{
    return page && page->limit > 0 && page->limit < STORE_PAGE_MAX ? page->limit : STORE_PAGE_MAX;
}

int row_list_begin(const struct table *table, const struct store_page *page, struct query *query, struct err *err)
{
    char id[ROW_ID_MAX];
    int64_t created = 0;
    int r;

    table_select(table, query);
    if (!page || !page->token || !*page->token) {
        query_add_text(query, " WHERE 1 = 1");
        return 0;
    }
    r = parse_page_token(table, page->token, &created, id, err);
    if (r < 0)
        return r;
    query_add(query, " WHERE (created_ns, id) > (", db_int(created));
    query_add(query, ", ", query_keep(query, id, strlen(id)));
    query_add_text(query, ")");
    return 0;
}

struct collecting {
    struct query *query;
    struct table_rows rows;
};

static int collect_rows(struct db *db, void *cookie, struct err *err)
{
    struct collecting *c = cookie;

    return table_collect(&c->rows, c->query, db, err);
}

int row_collect(struct store *store, enum store_call call, struct query *query, struct table_rows *rows, struct err *err)
{
    struct collecting c = { .query = query, .rows = *rows };
    int r = txn_read(store, call, collect_rows, &c, err);

    if (r < 0) {
        table_rows_done(&c.rows);
        return r;
    }
    *rows = c.rows;
    return 0;
}

/* Selects one more row than requested to see whether there is another page. */
int row_list_end(struct store *store, enum store_call call, const struct table *table, const struct store_page *page,
                 struct query *query, void *ret_rows, size_t *ret_count, char **ret_next_token, struct err *err)
{
    struct table_rows rows = { .table = table };
    size_t limit = page_limit(page);
    int r;

    query_add(query, " ORDER BY created_ns, id LIMIT ", db_int((int64_t) limit + 1));
    r = row_collect(store, call, query, &rows, err);
    if (r < 0)
        return r;
    *ret_next_token = NULL;
    if (rows.count > limit) {
        table_done_row(table, rows.rows + --rows.count * table->row_size);
        *ret_next_token = make_page_token(table, rows.rows + (limit - 1) * table->row_size);
    }
    memcpy(ret_rows, &rows.rows, sizeof(rows.rows));
    *ret_count = rows.count;
    return 0;
}

/* ---- windows ---- */

struct counting {
    const struct query *query;
    int64_t *ret;
};

static int count_rows(struct db *db, void *cookie, struct err *err)
{
    const struct counting *c = cookie;

    return db_run_int(db, c->query->text.data, c->query->values, c->query->count, c->ret, err);
}

int row_count(struct store *store, enum store_call call, const struct query *query, int64_t *ret, struct err *err)
{
    return txn_read(store, call, count_rows, &(struct counting){ query, ret }, err);
}

int row_list_window(struct store *store, const struct row_window *w, void *ret_rows, size_t *ret_count, int64_t *ret_total,
                    struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY, total = QUERY_EMPTY;
    struct table_rows rows = { .table = w->table };
    int r;

    table_select(w->table, &query);
    buf_addf(&total.text, "SELECT count(*) FROM %s", w->table->name);
    r = w->add_filter(&query, w->filter, err);
    if (r == 0)
        r = w->add_filter(&total, w->filter, err);
    if (r < 0)
        return r;
    query_add_text(&query, w->order);
    query_add(&query, " LIMIT ", db_int((int64_t) w->limit));
    query_add(&query, " OFFSET ", db_int((int64_t) w->offset));
    r = row_collect(store, w->list_call, &query, &rows, err);
    if (r == 0 && ret_total)
        r = row_count(store, w->count_call, &total, ret_total, err);
    if (r < 0) {
        table_rows_done(&rows);
        return r;
    }
    memcpy(ret_rows, &rows.rows, sizeof(rows.rows));
    *ret_count = rows.count;
    return 0;
}

/* ---- texts ---- */

char *row_clean_reason(const char *reason)
{
    struct buf out = BUF_EMPTY;
    size_t len = reason ? strnlen(reason, REASON_MAX) : 0;

    if (utf8_is_valid(reason ? reason : "", len))
        buf_add(&out, reason, len);
    else
        buf_add_escaped(&out, reason, len);
    return buf_dup_take(&out);
}
