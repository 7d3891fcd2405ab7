/*
 * Connections that threads take and give back. They are opened when they are needed, up to a maximum; who finds all of them
 * taken waits. One that was lost is closed when it is given back, and the next who needs one opens another.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/db.h"

#define POOL_MAX 64

struct pool {
    const struct db_driver *driver;
    const struct db_config *config; /* borrowed */
    enum db_role role;
    size_t max;
    _Atomic uint64_t connects; /* all that were ever made */
    _Atomic uint64_t waits;    /* how often somebody had to wait for one */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t given;
    size_t out; /* with somebody, or being opened */
    size_t idle_count;
    struct db *idle[POOL_MAX]; /* owned; the last was used last */
};

void pool_init(struct pool *pool, const struct db_driver *driver, const struct db_config *config, enum db_role role,
               size_t max);
void pool_done(struct pool *pool); /* all have been given back */

/* ERR_UNAVAILABLE: -EAGAIN when none became free until `deadline_ns` (CLOCK_MONOTONIC), -ECONNREFUSED and the like when none
 * could be opened. */
int pool_take(struct pool *pool, int64_t deadline_ns, struct db **ret, struct err *err);
void pool_give(struct pool *pool, struct db *db);
