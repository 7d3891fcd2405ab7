#include "store/token_row.h"

#include <errno.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/mem.h"
#include "store/row.h"
#include "store/txn.h"

static const struct column columns[] = {
    COLUMN_OF(token_row, id, TEXT),        COLUMN_OF(token_row, hash, BYTES),       COLUMN_OF(token_row, owner_id, TEXT),
    COLUMN_OF(token_row, name, TEXT),      COLUMN_OF(token_row, created_ns, INT),   COLUMN_OF(token_row, expires_ns, INT),
    COLUMN_OF(token_row, revoked_ns, INT), COLUMN_OF(token_row, last_used_ns, INT), COLUMN_OF(token_row, allowed_roots, PATHS),
    COLUMN_OF(token_row, is_admin, BOOL),
};

static const struct table tokens = {
    .name = "tokens",
    .noun = "token",
    .id_prefix = TOKEN_ID_PREFIX,
    .created_offset = offsetof(struct token_row, created_ns),
    .columns = columns,
    .count = ARRAY_LEN(columns),
    .row_size = sizeof(struct token_row),
};

void token_row_done(struct token_row *row)
{
    table_done_row(&tokens, row);
}

void token_rows_done(struct token_rows *rows)
{
    table_done_rows(&tokens, rows->rows, rows->count);
    free(rows->next_token);
    *rows = (struct token_rows){ 0 };
}

bool token_row_is_good(const struct token_row *row, int64_t now_ns)
{
    return row->revoked_ns == 0 && (row->expires_ns == 0 || now_ns < row->expires_ns);
}

/* ---- insert, find ---- */

int token_row_insert(struct store *store, const struct token_row *row, struct err *err)
{
    if (row->hash.len != TOKEN_HASH_LEN)
        return err_invalid(err, "a token's hash has %d bytes", TOKEN_HASH_LEN);
    return row_insert(store, STORE_CALL_TOKEN_INSERT, &tokens, row, err);
}

struct finding {
    const unsigned char *hash;
    struct token_row *ret;
};

static int token_find(struct db *db, void *cookie, struct err *err)
{
    struct finding *f = cookie;
    autodone(query) struct query query = QUERY_EMPTY;
    int r;

    table_select(&tokens, &query);
    query_add(&query, " WHERE hash = ", db_bytes(f->hash, TOKEN_HASH_LEN));
    r = table_get(&tokens, &query, db, "", f->ret, err);
    return r == -ENOENT ? err_set(err, ERR_NOT_FOUND, r, "there is no such token") : r;
}

int token_row_find(struct store *store, const unsigned char hash[TOKEN_HASH_LEN], struct token_row *ret, struct err *err)
{
    return txn_read(store, STORE_CALL_TOKEN_FIND, token_find, &(struct finding){ .hash = hash, .ret = ret }, err);
}

/* ---- list ---- */

int token_row_list(struct store *store, const char *owner_id, const struct store_page *page, struct token_rows *ret,
                   struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;
    int r;

    r = row_list_begin(&tokens, page, &query, err);
    if (r < 0)
        return r;
    query_match_text(&query, " AND owner_id = ", owner_id);
    return row_list_end(store, STORE_CALL_TOKEN_LIST, &tokens, page, &query, &ret->rows, &ret->count, &ret->next_token, err);
}

/* ---- revoke, touch ---- */

struct changing {
    const char *id, *owner_id;
    int64_t now_ns;
};

static int token_revoke(struct db *db, void *cookie, struct err *err)
{
    const struct changing *c = cookie;
    autodone(query) struct query query = QUERY_EMPTY;
    int r;

    query_add(&query, "UPDATE tokens SET revoked_ns = CASE WHEN revoked_ns = 0 THEN ", db_int(c->now_ns));
    query_add(&query, " ELSE revoked_ns END WHERE id = ", db_text(c->id));
    query_match_text(&query, " AND owner_id = ", c->owner_id);
    r = query_run(&query, db, NULL, NULL, err);
    if (r == 0)
        return table_not_found(&tokens, c->id, err);
    return r < 0 ? r : 0;
}

int token_row_revoke(struct store *store, const char *id, const char *owner_id, int64_t now_ns, struct err *err)
{
    struct changing c = { .id = id, .owner_id = owner_id, .now_ns = now_ns };

    if (!id_is_valid(TOKEN_ID_PREFIX, id))
        return table_not_found(&tokens, id, err);
    return txn_write(store, STORE_CALL_TOKEN_REVOKE, TXN_ONE_STATEMENT | TXN_REPEATABLE, token_revoke, &c, err);
}

static int token_touch(struct db *db, void *cookie, struct err *err)
{
    const struct changing *c = cookie;
    int r = db_run(db, "UPDATE tokens SET last_used_ns = $1 WHERE id = $2 AND last_used_ns < $1",
                   DB_VALUES(db_int(c->now_ns), db_text(c->id)), NULL, NULL, err);

    return r < 0 ? r : 0;
}

int token_row_touch(struct store *store, struct token_row *row, int64_t now_ns, int64_t every_ns, struct err *err)
{
    struct changing c = { .id = row->id, .now_ns = now_ns };
    int r;

    if (now_ns - row->last_used_ns < every_ns)
        return 0;
    r = txn_write(store, STORE_CALL_TOKEN_TOUCH, TXN_ONE_STATEMENT | TXN_REPEATABLE, token_touch, &c, err);
    if (r == 0)
        row->last_used_ns = now_ns;
    return r;
}
