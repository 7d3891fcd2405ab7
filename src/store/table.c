#include "store/table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "store/label.h"

#define AT(row, column, type) ((type *) ((char *) (row) + (column)->offset))
#define AT_CONST(row, column, type) ((const type *) ((const char *) (row) + (column)->offset))

/* ---- queries ---- */

void query_done(struct query *query)
{
    buf_done(&query->text);
    for (size_t i = 0; i < query->kept_count; i++)
        buf_done(&query->kept[i]);
    query->count = query->kept_count = 0;
}

void query_add_text(struct query *query, const char *text)
{
    buf_add_str(&query->text, text);
}

void query_add(struct query *query, const char *text, struct db_value value)
{
    if (query->count == DB_VALUES_MAX)
        abort(); /* callers limit what they add */
    query->values[query->count++] = value;
    buf_addf(&query->text, "%s$%zu", text, query->count);
}

void query_match_text(struct query *query, const char *text, const char *value)
{
    if (value)
        query_add(query, text, db_text(value));
}

void query_match_path(struct query *query, const char *text, const char *path)
{
    if (path)
        query_add(query, text, db_bytes(path, strlen(path)));
}

int query_run(struct query *query, struct db *db, db_row_fn fn, void *cookie, struct err *err)
{
    return db_run(db, query->text.data, query->values, query->count, fn, cookie, err);
}

static struct buf *query_new_kept(struct query *query)
{
    if (query->kept_count == QUERY_KEPT_MAX)
        abort(); /* likewise */
    return &query->kept[query->kept_count++];
}

struct db_value query_keep(struct query *query, const char *text, size_t len)
{
    struct buf *kept = query_new_kept(query);

    buf_add(kept, text, len);
    buf_add_str(kept, "");
    return db_text(kept->data);
}

/* ---- one value ---- */

static struct db_value column_paths_value(char *const *paths, struct query *query)
{
    struct buf *all = query_new_kept(query);

    for (; paths && *paths; paths++)
        buf_add(all, *paths, strlen(*paths) + 1);
    return db_bytes(all->data, all->len);
}

static struct db_value column_labels_value(const struct label_list *labels, struct query *query)
{
    struct buf *all = query_new_kept(query);

    label_list_add_text(labels, all);
    return db_text(all->data);
}

static struct db_value column_value(const void *row, const struct column *c, struct query *query)
{
    const char *s;

    switch (c->kind) {
    case COLUMN_TEXT:
        s = *AT_CONST(row, c, char *);
        return db_text(s ? s : "");
    case COLUMN_PATH:
        s = *AT_CONST(row, c, char *);
        return db_bytes(s, s ? strlen(s) : 0);
    case COLUMN_PATHS:
        return column_paths_value(*(char *const *const *) AT_CONST(row, c, void *), query);
    case COLUMN_INT:
        return db_int(*AT_CONST(row, c, int64_t));
    case COLUMN_ENUM:
        return db_int(*AT_CONST(row, c, int));
    case COLUMN_BOOL:
        return db_int(*AT_CONST(row, c, bool));
    case COLUMN_BYTES:
        return db_bytes(AT_CONST(row, c, struct buf)->data, AT_CONST(row, c, struct buf)->len);
    case COLUMN_LABELS:
        return column_labels_value(AT_CONST(row, c, struct label_list), query);
    }
    abort();
}

static char **column_take_paths(const char *bytes, size_t len)
{
    char **paths = NULL;
    size_t count = 0, cap = 0;

    for (size_t at = 0; at < len;) {
        size_t part = strnlen(bytes + at, len - at);
        vec_room(&paths, &cap, count);
        paths[count++] = xdupn(bytes + at, part);
        at += part + 1;
    }
    vec_room(&paths, &cap, count);
    paths[count] = NULL;
    return paths;
}

static int column_take_value(void *row, const struct column *c, const struct db_value *v)
{
    bool is_number = c->kind == COLUMN_INT || c->kind == COLUMN_ENUM || c->kind == COLUMN_BOOL;

    if (v->is_null || is_number != (v->kind == DB_INT))
        return -EUCLEAN;
    switch (c->kind) {
    case COLUMN_TEXT:
    case COLUMN_PATH:
        *AT(row, c, char *) = xdupn(v->bytes, v->len);
        return 0;
    case COLUMN_PATHS:
        *AT(row, c, char **) = column_take_paths(v->bytes, v->len);
        return 0;
    case COLUMN_INT:
        *AT(row, c, int64_t) = v->number;
        return 0;
    case COLUMN_ENUM:
        *AT(row, c, int) = (int) v->number;
        return 0;
    case COLUMN_BOOL:
        *AT(row, c, bool) = v->number != 0;
        return 0;
    case COLUMN_BYTES:
        buf_add(AT(row, c, struct buf), v->bytes, v->len);
        return 0;
    case COLUMN_LABELS:
        return label_list_parse(v->bytes, v->len, AT(row, c, struct label_list));
    }
    abort();
}

static void column_done_value(void *row, const struct column *c)
{
    switch (c->kind) {
    case COLUMN_TEXT:
    case COLUMN_PATH:
        free(*AT(row, c, char *));
        break;
    case COLUMN_PATHS:
        for (char **p = *AT(row, c, char **); p && *p; p++)
            free(*p);
        free(*AT(row, c, char **));
        break;
    case COLUMN_BYTES:
        buf_done(AT(row, c, struct buf));
        break;
    case COLUMN_LABELS:
        label_list_done(AT(row, c, struct label_list));
        break;
    case COLUMN_INT:
    case COLUMN_ENUM:
    case COLUMN_BOOL:
        break;
    }
}

void table_done_row(const struct table *table, void *row)
{
    for (size_t i = 0; i < table->count; i++)
        column_done_value(row, &table->columns[i]);
    memset(row, 0, table->row_size);
}

void table_done_rows(const struct table *table, void *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        table_done_row(table, (char *) rows + i * table->row_size);
    free(rows);
}

/* ---- checks ---- */

static int check_text(const char *name, const char *s, struct err *err)
{
    size_t len = strnlen(s, TABLE_TEXT_MAX + 1);

    if (len > TABLE_TEXT_MAX)
        return err_invalid(err, "%s is too long: at most %u bytes", name, TABLE_TEXT_MAX);
    return utf8_is_valid(s, len) ? 0 : err_invalid(err, "%s is not valid UTF-8", name);
}

static int check_labels(const struct label_list *labels, struct err *err)
{
    int r = labels->count > LABEL_COUNT_MAX ? err_invalid(err, "too many labels: at most %d", LABEL_COUNT_MAX) : 0;

    for (size_t i = 0; i < labels->count && r == 0; i++) {
        r = check_text("a label's name", labels->items[i].key, err);
        if (r == 0)
            r = check_text("a label's value", labels->items[i].value, err);
    }
    return r;
}

int table_check(const struct table *table, const void *row, struct err *err)
{
    int r = 0;

    for (size_t i = 0; i < table->count && r == 0; i++) {
        const struct column *c = &table->columns[i];
        if (c->kind == COLUMN_TEXT && *AT_CONST(row, c, char *))
            r = check_text(c->name, *AT_CONST(row, c, char *), err);
        else if (c->kind == COLUMN_LABELS)
            r = check_labels(AT_CONST(row, c, struct label_list), err);
        else if (c->kind == COLUMN_BYTES && AT_CONST(row, c, struct buf)->len > TABLE_BYTES_MAX)
            r = err_invalid(err, "%s is too long: at most %u bytes", c->name, TABLE_BYTES_MAX);
    }
    return r;
}

/* ---- statements ---- */

void table_select(const struct table *table, struct query *query)
{
    query_add_text(query, "SELECT ");
    for (size_t i = 0; i < table->count; i++)
        buf_addf(&query->text, "%s%s", i ? ", " : "", table->columns[i].name);
    buf_addf(&query->text, " FROM %s", table->name);
}

int table_insert(const struct table *table, struct db *db, const void *row, const char *id, struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;
    int r;

    buf_addf(&query.text, "INSERT INTO %s (", table->name);
    for (size_t i = 0; i < table->count; i++)
        buf_addf(&query.text, "%s%s", i ? ", " : "", table->columns[i].name);
    query_add_text(&query, ") VALUES (");
    for (size_t i = 0; i < table->count; i++)
        query_add(&query, i ? ", " : "", column_value(row, &table->columns[i], &query));
    query_add_text(&query, ")");
    r = query_run(&query, db, NULL, NULL, err);
    if (r == -EEXIST)
        return err_set(err, ERR_ALREADY_EXISTS, r, "there is a %s '%s' already", table->noun, id);
    return r < 0 ? r : 0;
}

void table_update(const struct table *table, const void *row, struct query *query)
{
    const char *before = "";

    buf_addf(&query->text, "UPDATE %s SET ", table->name);
    for (size_t i = 0; i < table->count; i++) {
        const struct column *c = &table->columns[i];
        if (!c->is_changed)
            continue;
        buf_addf(&query->text, "%s%s", before, c->name);
        query_add(query, " = ", column_value(row, c, query));
        before = ", ";
    }
}

/* ---- rows ---- */

static int table_take_row(const struct db_value *columns, size_t count, void *cookie)
{
    struct table_rows *rows = cookie;
    const struct table *table = rows->table;
    char *row;
    int r = count == table->count ? 0 : -EUCLEAN;

    if (rows->count == rows->cap) {
        rows->cap = rows->cap ? rows->cap * 2 : 4;
        rows->rows = xgrow(rows->rows, rows->cap, table->row_size);
    }
    row = rows->rows + rows->count * table->row_size;
    memset(row, 0, table->row_size);
    for (size_t i = 0; i < table->count && r == 0; i++)
        r = column_take_value(row, &table->columns[i], &columns[i]);
    if (r < 0)
        table_done_row(table, row);
    else
        rows->count++;
    return r;
}

void table_rows_done(struct table_rows *rows)
{
    table_done_rows(rows->table, rows->rows, rows->count);
    *rows = (struct table_rows){ .table = rows->table };
}

int table_collect(struct table_rows *rows, struct query *query, struct db *db, struct err *err)
{
    int r;

    table_rows_done(rows); /* from an earlier attempt */
    r = query_run(query, db, table_take_row, rows, err);
    return r < 0 ? r : 0;
}

int table_not_found(const struct table *table, const char *id, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    buf_add_excerpt(&shown, id, strlen(id));
    return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no %s '%s'", table->noun, shown.data ? shown.data : "");
}

int table_get(const struct table *table, struct query *query, struct db *db, const char *id, void *ret_row, struct err *err)
{
    autodone(table_rows) struct table_rows rows = { .table = table };
    int r = table_collect(&rows, query, db, err);

    if (r < 0)
        return r;
    if (rows.count == 0)
        return table_not_found(table, id, err);
    memcpy(ret_row, rows.rows, table->row_size);
    memset(rows.rows, 0, table->row_size); /* the caller owns its contents now */
    return 0;
}
