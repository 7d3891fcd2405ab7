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

static int take_found(const struct db_value *columns, size_t count, void *cookie)
{
    struct entry *e = cookie;

    if (count != 1 || columns[0].kind != DB_TEXT)
        return -EUCLEAN;
    free(e->found);
    e->found = xdupn(columns[0].bytes, columns[0].len);
    return 0;
}

static int get(struct db *db, void *cookie, struct err *err)
{
    struct entry *e = cookie;
    int r = db_run(db, "SELECT value FROM meta WHERE name = $1", DB_VALUES(db_text(e->name)), take_found, e, err);

    if (r == 0)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no '%s'", e->name);
    return r < 0 ? r : 0;
}

static int set(struct db *db, void *cookie, struct err *err)
{
    const struct entry *e = cookie;
    int r = db_run(db, "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                   DB_VALUES(db_text(e->name), db_text(e->value)), NULL, NULL, err);

    return r < 0 ? r : 0;
}

static int keep(struct db *db, void *cookie, struct err *err)
{
    const struct entry *e = cookie;
    int r = db_run(db, "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
                   DB_VALUES(db_text(e->name), db_text(e->value)), NULL, NULL, err);

    return r < 0 ? r : get(db, cookie, err);
}

static int finish(int r, struct entry *e, char **ret_value)
{
    if (r == 0)
        *ret_value = steal_ptr(&e->found);
    free(e->found);
    return r;
}

int meta_get(struct store *store, const char *name, char **ret_value, struct err *err)
{
    struct entry e = { .name = name };

    return finish(txn_read(store, STORE_CALL_META_GET, get, &e, err), &e, ret_value);
}

int meta_set(struct store *store, const char *name, const char *value, struct err *err)
{
    struct entry e = { .name = name, .value = value };

    return txn_write(store, STORE_CALL_META_SET, TXN_ONE_STATEMENT | TXN_REPEATABLE, set, &e, err);
}

int meta_keep(struct store *store, const char *name, const char *value, char **ret_value, struct err *err)
{
    struct entry e = { .name = name, .value = value };

    return finish(txn_write(store, STORE_CALL_META_SET, TXN_ONE_STATEMENT | TXN_REPEATABLE, keep, &e, err), &e, ret_value);
}
