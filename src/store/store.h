/*
 * The server's database: codebases, sandboxes, sessions, tokens, events, idempotency keys. It is an SQLite file, or a
 * PostgreSQL database that several hosts may share.
 *
 *     store_open("/var/lib/agentfense/metadata.db", NULL, &store, &err);
 *     sandbox_row_insert(store, &row, NULL, &err);
 *
 * Each kind of row has a header of its own (codebase_row.h and so on). All calls block; any number of threads may make them at
 * once. A write that returned 0 is durable: it survives a kill and a power cut. A failed write changed nothing, with one
 * exception: after ERR_UNAVAILABLE with -EINPROGRESS it may have happened, because the connection to PostgreSQL broke during
 * the commit. ERR_UNAVAILABLE means that the database cannot be reached now, ERR_RESOURCE_EXHAUSTED that it has no space. Both
 * may pass.
 *
 * While a store is open, nothing else in this process may open its SQLite file: closing it again would drop SQLite's POSIX
 * locks.
 *
 * The store records what is intended. The supervisors know the actual state.
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
    unsigned connections;          /* PostgreSQL 8; SQLite 4, for reading. At most 64 */
    unsigned busy_timeout_ms;      /* how long a statement waits for another process's lock: 5000 */
    unsigned statement_timeout_ms; /* PostgreSQL: 10000 */
    unsigned patience_ms;          /* how long a call retries as long as nothing was done: 3000 */
    bool skip_check;               /* do not check every page of the SQLite file at start */
};

/* `url` is the path of an SQLite file, "sqlite:PATH", or "postgresql://...". `options` may be NULL. Makes a missing database
 * and migrates an older schema. Refuses a newer schema, a damaged file and another program's file, without changing them. */
int store_open(const char *url, const struct store_options *options, struct store **ret, struct err *err);

/* All calls must have ended. Accepts NULL. */
void store_close(struct store *store);
DEFINE_AUTOPTR(store, store_close);

/* "sqlite" or "postgres". */
const char *store_driver_name(const struct store *store);

/* For health checks: asks the database for an answer. */
int store_ping(struct store *store, struct err *err);

struct store_call_stats {
    const char *name; /* as in a metric's label */
    uint64_t count;
    uint64_t failures; /* of the database; a missing row is not a failure */
    uint64_t sum_ns;
    uint64_t buckets[STORE_CALL_BUCKETS]; /* not cumulative; their upper bounds are in store_metrics_bucket_end_ns() */
};

struct store_stats {
    struct store_call_stats calls[STORE_CALL_CALL_COUNT];
    uint64_t commits;  /* of transactions with writes */
    uint64_t writes;   /* calls in them; with SQLite several may share one commit */
    uint64_t retries;  /* repeated attempts */
    uint64_t connects; /* connections made since the start */
    uint64_t waits;    /* calls that found all connections in use */
};

void store_stats(const struct store *store, struct store_stats *ret);

/* ---- lists ---- */

#define STORE_PAGE_MAX 1000

/* A part of a list. A token names the position after a row, not an offset, so rows inserted or removed meanwhile do not make
 * other rows appear twice or get lost. */
struct store_page {
    size_t limit;      /* 0, or more than STORE_PAGE_MAX, means STORE_PAGE_MAX */
    const char *token; /* borrowed: from the previous page; NULL or "" for the first */
};
