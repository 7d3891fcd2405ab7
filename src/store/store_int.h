/*
 * Shared by the files of this module.
 *
 * Each of the locks pool->lock and store->job_lock is the last that its thread takes. No thread holds one during a database
 * call. Only the leader of a batch of jobs (txn.c) uses SQLite's writing connection, without a lock.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "store/db.h"
#include "store/pool.h"
#include "store/store.h"

struct job;

struct store {
    const struct db_driver *driver;
    struct db_config config; /* owned; constant */
    int64_t patience_ns;
    struct pool readers;
    struct pool writers; /* SQLite: one connection. PostgreSQL: unused, `readers` write too */
    struct store_metrics meter;
    _Atomic uint64_t commits, writes, retries;

    pthread_mutex_t job_lock; /* guards the following fields */
    struct job *job_first;    /* borrowed: waiting jobs, each on its caller's stack */
    struct job **job_end;
    bool job_is_led;
};
