/*
 * The threads that handlers run in: as many as there are calls at work, up to a bound; one that finds nothing to do for a while ends.
 *
 * Handlers block, so a call at work holds a thread. Beyond the bound calls wait in line, and beyond the line's bound
 * pool_submit() refuses, which the carrier answers with RESOURCE_EXHAUSTED. Some threads are kept from those that may last, so that others
 * need not wait for what does not depend on the server.
 */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"
#include "base/err.h"

struct pool;

typedef void (*pool_fn)(void *arg);

/* Signals must be blocked already. `threads_max` 0, `queue_max` 0: defaults (256, 1024). There is a queue for each kind. */
int pool_new(size_t threads_max, size_t queue_max, struct pool **ret, struct err *err);

/* Waits for what is at work; what still waits in a queue is run too. Nothing may be submitted meanwhile. */
void pool_free(struct pool *pool);
DEFINE_AUTOPTR(pool, pool_free);

enum pool_kind {
    POOL_BRIEF,
    POOL_LASTING, /* at most seven of eight threads */
};

/* -EAGAIN when the queue is full or no thread can be made and none is there. */
int pool_submit(struct pool *pool, enum pool_kind kind, pool_fn fn, void *arg);

struct pool_stats {
    size_t threads, busy, waiting;
};

void pool_stats(struct pool *pool, struct pool_stats *ret);
