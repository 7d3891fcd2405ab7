/*
 * What the server remembers: codebases, sandboxes, sessions, tokens, events, idempotency keys. In an SQLite file, or in a
 * PostgreSQL database that several hosts may share.
 *
 *     store_open("/var/lib/agentfense/metadata.db", NULL, &store, &err);
 *     sandbox_row_insert(store, &row, 0, &err);
 *
 * Each kind of row has a header of its own (codebase_row.h and so on). All calls block and may be made by any number of threads
 * at once. A write that returned 0 is durable: no kill and no power cut takes it back. One that failed left nothing, with one
 * exception: ERR_UNAVAILABLE with -EINPROGRESS means that the connection to PostgreSQL broke in the very moment of the commit,
 * and nobody can tell. ERR_UNAVAILABLE says that the database cannot be reached now, ERR_RESOURCE_EXHAUSTED that it has no
 * room; both go by.
 *
 * While a store is open, nothing else in this process may open its SQLite file: closing that again would drop SQLite's locks.
 *
 * The store records what is intended. What is so, the supervisors know.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "store/store_metrics.h"

struct store;

/* Zeroed fields mean the default. */
struct store_options {
    unsigned connections;          /* PostgreSQL 8; SQLite, for reading, 4. At most 64 */
    unsigned busy_timeout_ms;      /* how long one statement waits for another process's lock: 5000 */
    unsigned statement_timeout_ms; /* PostgreSQL: 10000 */
    unsigned patience_ms;          /* how long a call tries again while it knows that nothing was done: 3000 */
    bool skip_check;               /* no look at every page of the SQLite file at start */
};

/* `url` is the path of an SQLite file, "sqlite:PATH", or "postgresql://...". `options` may be NULL. Makes what is not there,
 * and brings an older schema up to date; refuses a newer one, a damaged file and another program's, and changes nothing in
 * them. */
int store_open(const char *url, const struct store_options *options, struct store **ret, struct err *err);

/* No call is going on any more. Accepts NULL. */
void store_close(struct store *store);
DEFINE_AUTOPTR(store, store_close);

/* "sqlite" or "postgres". */
const char *store_driver_name(const struct store *store);

/* Asks the database whether it is there: for a health check. */
int store_ping(struct store *store, struct err *err);

struct store_call_stats {
    const char *name; /* as in a metric's label */
    uint64_t count;
    uint64_t failures; /* of the database: a row that is not there is none */
    uint64_t sum_ns;
    uint64_t buckets[STORE_CALL_BUCKETS]; /* not cumulative; their ends by store_metrics_bucket_end_ns() */
};

struct store_stats {
    struct store_call_stats calls[STORE_CALL_CALL_COUNT];
    uint64_t commits;  /* of transactions that wrote */
    uint64_t writes;   /* calls in them: with SQLite several may share one commit */
    uint64_t retries;  /* attempts after which the same was tried again */
    uint64_t connects; /* connections made since the start */
    uint64_t waits;    /* calls that found all connections taken */
};

void store_stats(const struct store *store, struct store_stats *ret);

/* ---- lists ---- */

#define STORE_PAGE_MAX 1000

/* Which part of a list. A token names the place behind a row, not a number of rows: rows that come and go meanwhile make no
 * other row appear twice or be left out. */
struct store_page {
    size_t limit;      /* 0, or more than STORE_PAGE_MAX: STORE_PAGE_MAX */
    const char *token; /* borrowed: from the page before; NULL or "" for the first */
};
