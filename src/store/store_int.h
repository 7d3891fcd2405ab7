/*
 * What the files of this module share.
 *
 * Locks, each taken last of all that its thread holds: pool->lock; store->job_lock. None is held during a call of the database;
 * who leads a batch of jobs (job.c) is the only one to use the writing connection, without a lock.
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
    struct pool writers; /* SQLite: one connection. PostgreSQL: not used, `readers` write too */
    struct store_metrics meter;
    _Atomic uint64_t commits, writes, retries;

    pthread_mutex_t job_lock; /* guards what follows */
    struct job *job_first;    /* borrowed: waiting jobs, each on its caller's stack */
    struct job **job_end;
    bool job_is_led;
};
