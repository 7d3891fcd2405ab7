/*
 * The threads that run handlers: one for each running call, up to a limit. A thread that stays idle for a while ends.
 *
 * Handlers block, so a running call occupies a thread. Calls beyond the limit wait in a queue; when the queue is full, pool_submit() fails and
 * the carrier answers RESOURCE_EXHAUSTED. Long calls never get all threads, so brief calls need not wait for clients.
 */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"
#include "base/err.h"

struct pool;

typedef void (*pool_fn)(void *arg);

/* Signals must be blocked already. 0 means the default: 256 threads, 1024 waiting calls of each kind. */
int pool_new(size_t threads_max, size_t queue_max, struct pool **ret, struct err *err);

/* Runs what still waits in a queue and returns when all calls have ended. Nobody may submit meanwhile. */
void pool_free(struct pool *pool);
DEFINE_AUTOPTR(pool, pool_free);

enum pool_kind {
    POOL_BRIEF,
    POOL_LASTING, /* at most seven of eight threads */
};

/* -EAGAIN if the queue is full, or if there is no thread and none can be created. */
int pool_submit(struct pool *pool, enum pool_kind kind, pool_fn fn, void *arg);

struct pool_stats {
    size_t threads, busy, waiting;
};

void pool_stats(struct pool *pool, struct pool_stats *ret);
