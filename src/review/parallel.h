/* A few threads that share out numbered pieces of work. The caller is one of them; where no thread can be had it does all. */
#pragma once

#include <stddef.h>

#include "base/err.h"

#define PARALLEL_THREADS_MAX 4 /* threads; each may hold two texts in memory */

typedef int (*parallel_fn)(size_t i, void *cookie, struct err *err);

/* Calls `fn` for each of 0..count-1, in no particular order. The first failure ends it, and is returned when all have stopped. */
int parallel_run(size_t count, parallel_fn fn, void *cookie, struct err *err);
