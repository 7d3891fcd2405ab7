/* Finds a sandbox by its id, its name or the beginning of its id. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/row.h"
#include "store/sandbox_row_int.h"
#include "store/txn.h"

#define SHOWN_MAX 8
#define DIGITS_MAX 32
/* This many digits of a UUID are at the same positions in both kinds of ids. */
#define UUID_DIGITS_ALIKE 12

int sandbox_row_get(struct store *store, const char *id, struct sandbox_row *ret, struct err *err)
{
    return row_get(store, STORE_CALL_SANDBOX_GET, &sandbox_table, id, ret, err);
}

struct finding {
    const char *owner_id, *text;
    struct sandbox_row *ret;
};

/* Reads the digits that an id begins with: "sb_01ab", "01ab", "01ab0000-4". Returns the possible kinds: 1 new, 2 old, 3 both, 0
 * none. */
static int read_id_digits(const char *text, char digits[DIGITS_MAX + 1])
{
    int kinds = 3;
    size_t count = 0;

    if (strncmp(text, SANDBOX_ID_PREFIX, strlen(SANDBOX_ID_PREFIX)) == 0)
        kinds = 1;
    else if (strncmp(text, SANDBOX_ID_OLD_PREFIX, strlen(SANDBOX_ID_OLD_PREFIX)) == 0)
        kinds = 2;
    text += kinds == 3 ? 0 : strlen(SANDBOX_ID_PREFIX);
    bool is_uuid = kinds == 3 && strchr(text, '-');
    for (; *text && count < DIGITS_MAX; text++) {
        if (*text == '-' && is_uuid)
            continue;
        if (!isxdigit((unsigned char) *text))
            return 0;
        digits[count++] = (char) tolower((unsigned char) *text);
    }
    digits[count] = '\0';
    if (count == 0 || *text)
        return 0;
    return is_uuid && count > UUID_DIGITS_ALIKE ? kinds & 2 : kinds;
}

/* "g" is the first byte after all digits. */
static void add_id_prefix(struct query *query, const char *before, const char *prefix, const char *digits)
{
    autofree char *first = xprintf("%s%s", prefix, digits), *end = xprintf("%s%sg", prefix, digits);

    query_add_text(query, before);
    query_add(query, "(id >= ", query_keep(query, first, strlen(first)));
    query_add(query, " AND id < ", query_keep(query, end, strlen(end)));
    query_add_text(query, ")");
}

static int reject_ambiguous_sandbox(const struct table_rows *rows, size_t count, const char *text, struct err *err)
{
    autodone(buf) struct buf list = BUF_EMPTY;

    for (size_t i = 0; i < count && i < SHOWN_MAX; i++) {
        const struct sandbox_row *row = (const struct sandbox_row *) rows->rows + i;
        buf_addf(&list, "%s%s%s%s", i ? ", " : "", row->id, *row->name ? " " : "", row->name);
    }
    return err_set_reason(err,
                          err_set(err, ERR_INVALID_ARGUMENT, -EINVAL, "'%s' may be several sandboxes: %s%s", text, list.data,
                                  count > SHOWN_MAX ? ", ..." : ""),
                          "SANDBOX_AMBIGUOUS");
}

/* Rows of existing sandboxes come first. Deleted ones count only if there are no others. */
static int sandbox_take_only(struct table_rows *rows, const char *text, struct sandbox_row *ret, struct err *err)
{
    struct sandbox_row *row = (struct sandbox_row *) rows->rows;
    size_t count = 0;

    while (count < rows->count && (row[count].status == SANDBOX_STATUS_DELETED) == (row[0].status == SANDBOX_STATUS_DELETED))
        count++;
    if (count == 0)
        return -ENOENT;
    if (count > 1)
        return reject_ambiguous_sandbox(rows, count, text, err);
    *ret = *row;
    memset(row, 0, sizeof(*row));
    return 0;
}

static int sandbox_find_by(struct db *db, struct query *query, const struct finding *f, struct err *err)
{
    autodone(table_rows) struct table_rows rows = { .table = &sandbox_table };
    int r;

    query_match_text(query, " AND owner_id = ", f->owner_id);
    query_add(query, " ORDER BY CASE WHEN status = 9 THEN 1 ELSE 0 END, created_ns, id LIMIT ", db_int(SHOWN_MAX + 1));
    r = table_collect(&rows, query, db, err);
    return r < 0 ? r : sandbox_take_only(&rows, f->text, f->ret, err);
}

static int sandbox_find(struct db *db, void *cookie, struct err *err)
{
    const struct finding *f = cookie;
    autodone(query) struct query by_name = QUERY_EMPTY, by_id = QUERY_EMPTY;
    char digits[DIGITS_MAX + 1];
    int kinds = read_id_digits(f->text, digits), r;

    table_select(&sandbox_table, &by_name);
    query_add(&by_name, " WHERE name <> '' AND name = ", db_text(f->text));
    r = sandbox_find_by(db, &by_name, f, err);
    if (r != -ENOENT || !kinds)
        return r == -ENOENT ? table_not_found(&sandbox_table, f->text, err) : r;
    table_select(&sandbox_table, &by_id);
    query_add_text(&by_id, " WHERE (1 = 0");
    if (kinds & 1)
        add_id_prefix(&by_id, " OR ", SANDBOX_ID_PREFIX, digits);
    if (kinds & 2)
        add_id_prefix(&by_id, " OR ", SANDBOX_ID_OLD_PREFIX, digits);
    query_add_text(&by_id, ")");
    r = sandbox_find_by(db, &by_id, f, err);
    return r == -ENOENT ? table_not_found(&sandbox_table, f->text, err) : r;
}

int sandbox_row_find(struct store *store, const char *owner_id, const char *text, struct sandbox_row *ret, struct err *err)
{
    struct finding f = { .owner_id = owner_id, .text = text, .ret = ret };

    return txn_read(store, STORE_CALL_SANDBOX_GET, sandbox_find, &f, err);
}
