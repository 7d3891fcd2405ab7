#include "store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"
#include "store/schema.h"
#include "store/store_int.h"
#include "store/txn.h"

#define READERS 4
#define CONNECTIONS 8
#define BUSY_TIMEOUT_MS 5000
#define STATEMENT_TIMEOUT_MS 10000
#define PATIENCE_MS 3000

/* ---- the address ---- */

static bool begins_with(const char *s, const char *prefix)
{
    return strncasecmp(s, prefix, strlen(prefix)) == 0;
}

/* User and password are between "//" and the last "@" before the path. The query may contain a password, too. */
static char *hide_password(const char *url)
{
    const char *authority = strstr(url, "//") + 2, *end = authority + strcspn(authority, "/?"), *at = NULL, *query;
    struct buf out = BUF_EMPTY;

    for (const char *p = authority; p < end; p++)
        at = *p == '@' ? p : at;
    buf_add(&out, url, (size_t) (authority - url));
    if (at) {
        const char *colon = memchr(authority, ':', (size_t) (at - authority));
        buf_add(&out, authority, (size_t) ((colon ? colon : at) - authority));
    }
    query = strchr(end, '?');
    buf_add(&out, at ? at : authority, (size_t) ((query ? query : url + strlen(url)) - (at ? at : authority)));
    return buf_dup_take(&out);
}

static int store_read_url(const char *url, struct store *store, struct err *err)
{
    if (begins_with(url, "postgres://") || begins_with(url, "postgresql://")) {
        store->driver = &db_postgres;
        store->config.address = xdup(url);
        store->config.shown = hide_password(url);
        return 0;
    }
    if (begins_with(url, "sqlite:"))
        url += strlen("sqlite:");
    else if (strstr(url, "://"))
        return err_invalid(err, "the database is a path, sqlite:PATH or postgresql://...: no other kind is known");
    if (!*url)
        return err_invalid(err, "the path of the database is empty");
    if (url[strlen(url) - 1] == '/')
        return err_invalid(err, "the path of the database ends in a slash: it must name a file");
    store->driver = &db_sqlite;
    store->config.address = xdup(url);
    store->config.shown = xdup(url);
    return 0;
}

/* ---- opening and closing ---- */

static unsigned or_default(unsigned value, unsigned usual)
{
    return value ? value : usual;
}

static void store_set_up(struct store *store, const struct store_options *options)
{
    static const struct store_options none;
    const struct store_options *o = options ? options : &none;
    bool shared = store->driver->one_writer;

    store->config.busy_timeout_ms = (int) or_default(o->busy_timeout_ms, BUSY_TIMEOUT_MS);
    store->config.statement_timeout_ms = (int) or_default(o->statement_timeout_ms, STATEMENT_TIMEOUT_MS);
    store->config.skip_check = o->skip_check;
    store->patience_ns = (int64_t) or_default(o->patience_ms, PATIENCE_MS) * 1000000;
    pool_init(&store->readers, store->driver, &store->config, shared ? DB_READER : DB_WRITER,
              or_default(o->connections, shared ? READERS : CONNECTIONS));
    pool_init(&store->writers, store->driver, &store->config, DB_WRITER, 1);
}

/* The order matters: writes nothing before it is sure that the database is intact, ours, and not newer than this program. */
static int store_prepare(struct store *store, struct db *db, struct err *err)
{
    int64_t version;
    int r = store->driver->inspect(db, &store->config, err);

    if (r == 0)
        r = schema_check(db, store->config.shown, &version, err);
    if (r == 0)
        r = store->driver->settle(db, err);
    return r == 0 ? schema_migrate(db, store->config.shown, schema_latest(), err) : r;
}

int store_open(const char *url, const struct store_options *options, struct store **ret, struct err *err)
{
    autoptr(store) store = xnew(struct store);
    struct pool *pool;
    struct db *db;
    int r;

    pthread_mutex_init(&store->job_lock, NULL);
    store->job_end = &store->job_first;
    r = store_read_url(url, store, err);
    if (r < 0)
        return r;
    store_set_up(store, options);
    pool = store->driver->one_writer ? &store->writers : &store->readers;
    r = pool_take(pool, INT64_MAX, &db, err);
    if (r < 0)
        return r;
    r = store_prepare(store, db, err);
    pool_give(pool, db);
    if (r < 0)
        return r;
    *ret = steal_ptr(&store);
    return 0;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    pool_done(&store->readers);
    pool_done(&store->writers); /* last: this copies the write-ahead log into the file */
    pthread_mutex_destroy(&store->job_lock);
    db_config_done(&store->config);
    free(store);
}

const char *store_driver_name(const struct store *store)
{
    return store->driver->name;
}

/* ---- state and statistics ---- */

static int store_run_ping(struct db *db, void *cookie, struct err *err)
{
    int64_t version;

    (void) cookie;
    return db_run_int(db, "SELECT max(version) FROM schema_version", DB_NO_VALUES, &version, err);
}

int store_ping(struct store *store, struct err *err)
{
    return txn_read(store, STORE_CALL_META_GET, store_run_ping, NULL, err);
}

static uint64_t load_counter(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void store_stats(const struct store *store, struct store_stats *ret)
{
    *ret = (struct store_stats){ .commits = load_counter(&store->commits),
                                 .writes = load_counter(&store->writes),
                                 .retries = load_counter(&store->retries),
                                 .connects = load_counter(&store->readers.connects) + load_counter(&store->writers.connects),
                                 .waits = load_counter(&store->readers.waits) + load_counter(&store->writers.waits) };
    for (int i = 0; i < STORE_CALL_CALL_COUNT; i++) {
        struct store_call_stats *call = &ret->calls[i];
        call->name = store_call_name(i);
        call->count = load_counter(&store->meter.calls[i].count);
        call->failures = load_counter(&store->meter.calls[i].failures);
        call->sum_ns = load_counter(&store->meter.calls[i].sum_ns);
        for (unsigned b = 0; b < STORE_CALL_BUCKETS; b++)
            call->buckets[b] = load_counter(&store->meter.calls[i].buckets[b]);
    }
}
