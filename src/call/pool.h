/*
 * The threads that handlers run in: as many as there are calls at work, up to a bound; one that finds nothing to do for a while ends.
 *
 * Handlers block, so a call at work holds a thread. Beyond the bound calls wait in line, and beyond the line's bound
 * pool_submit() refuses, which the carrier answers with RESOURCE_EXHAUSTED.
 */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"
#include "base/err.h"

struct pool;

typedef void (*pool_fn)(void *arg);

/* Signals must be blocked already. `threads_max` 0, `line_max` 0: defaults (256, 1024). */
int pool_new(size_t threads_max, size_t line_max, struct pool **ret, struct err *err);

/* Waits for what is at work; what still stands in line is run too. Nothing may be submitted meanwhile. */
void pool_free(struct pool *pool);
DEFINE_AUTOPTR(pool, pool_free);

/* -EAGAIN when the line is full or no thread can be made and none is there. */
int pool_submit(struct pool *pool, pool_fn fn, void *arg);

struct pool_stats {
    size_t threads, busy, waiting;
};

void pool_stats(struct pool *pool, struct pool_stats *ret);
