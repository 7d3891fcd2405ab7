/* Distributes numbered pieces of work over a few threads. The caller is one of them; if no thread can be created it does
 * all. */
#pragma once

#include <stddef.h>

#include "base/err.h"

#define PARALLEL_THREADS_MAX 4 /* threads; each may hold two texts in memory */

typedef int (*parallel_fn)(size_t i, void *cookie, struct err *err);

/* Calls `fn` for each of 0..count-1, in no particular order. The first failure stops the work, and is returned when all
 * threads have ended. */
int parallel_run(size_t count, parallel_fn fn, void *cookie, struct err *err);
