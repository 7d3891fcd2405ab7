#include "store/meta.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "store/txn.h"

struct entry {
    const char *name;
    const char *value;
    char *found; /* owned */
};

static int meta_take_found(const struct db_value *columns, size_t count, void *cookie)
{
    struct entry *e = cookie;

    if (count != 1 || columns[0].kind != DB_TEXT)
        return -EUCLEAN;
    free(e->found);
    e->found = xdupn(columns[0].bytes, columns[0].len);
    return 0;
}

static int meta_get_entry(struct db *db, void *cookie, struct err *err)
{
    struct entry *e = cookie;
    int r = db_run(db, "SELECT value FROM meta WHERE name = $1", DB_VALUES(db_text(e->name)), meta_take_found, e, err);

    if (r == 0)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no '%s'", e->name);
    return r < 0 ? r : 0;
}

static int meta_set_entry(struct db *db, void *cookie, struct err *err)
{
    const struct entry *e = cookie;
    int r = db_run(db, "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                   DB_VALUES(db_text(e->name), db_text(e->value)), NULL, NULL, err);

    return r < 0 ? r : 0;
}

static int meta_keep_entry(struct db *db, void *cookie, struct err *err)
{
    const struct entry *e = cookie;
    int r = db_run(db, "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
                   DB_VALUES(db_text(e->name), db_text(e->value)), NULL, NULL, err);

    return r < 0 ? r : meta_get_entry(db, cookie, err);
}

static int meta_finish_entry(int r, struct entry *e, char **ret_value)
{
    if (r == 0)
        *ret_value = steal_ptr(&e->found);
    free(e->found);
    return r;
}

int meta_get(struct store *store, const char *name, char **ret_value, struct err *err)
{
    struct entry e = { .name = name };

    return meta_finish_entry(txn_read(store, STORE_CALL_META_GET, meta_get_entry, &e, err), &e, ret_value);
}

int meta_set(struct store *store, const char *name, const char *value, struct err *err)
{
    struct entry e = { .name = name, .value = value };

    return txn_write(store, STORE_CALL_META_SET, TXN_ONE_STATEMENT | TXN_REPEATABLE, meta_set_entry, &e, err);
}

int meta_keep(struct store *store, const char *name, const char *value, char **ret_value, struct err *err)
{
    struct entry e = { .name = name, .value = value };

    return meta_finish_entry(
        txn_write(store, STORE_CALL_META_SET, TXN_ONE_STATEMENT | TXN_REPEATABLE, meta_keep_entry, &e, err), &e, ret_value);
}
