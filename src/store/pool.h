/*
 * Connections shared by threads. They are opened on demand, up to a maximum; then callers wait. pool_give() closes a lost
 * connection, and the next caller that needs one opens another.
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
    _Atomic uint64_t connects; /* connections ever made */
    _Atomic uint64_t waits;    /* how often a caller had to wait */

    pthread_mutex_t lock; /* guards the following fields */
    pthread_cond_t given;
    size_t out; /* in use, or being opened */
    size_t idle_count;
    struct db *idle[POOL_MAX]; /* owned; the last was used most recently */
};

void pool_init(struct pool *pool, const struct db_driver *driver, const struct db_config *config, enum db_role role,
               size_t max);
void pool_done(struct pool *pool); /* all connections must have been given back */

/* ERR_UNAVAILABLE: -EAGAIN if none became free until `deadline_ns` (CLOCK_MONOTONIC); -ECONNREFUSED and the like if none could
 * be opened. */
int pool_take(struct pool *pool, int64_t deadline_ns, struct db **ret, struct err *err);
void pool_give(struct pool *pool, struct db *db);
