/*
 * Removes unused containers of this state directory's sandboxes, whose supervisors are gone. An engine removes a container
 * whose init has ended, and init ends with its supervisor. What remains was created but never started, or forgotten by an
 * engine that was killed. They are found by their labels; containers with other labels, or of another state directory, are not
 * touched.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "container/engine.h"
#include "runtime/docker_order.h"

/* Removes a container by id or name, even if it runs. If the engine is already removing it, waits up to `wait_ms`. */
int orphan_remove(struct engine *engine, const char *id, int wait_ms, struct err *err);

/* Removes all containers of our own sandbox, and those of others whose lock is free. Failures with the latter are ignored. */
int orphan_sweep(struct engine *engine, const struct docker_order *order, struct err *err);

/* Adds the API path that lists them. */
void orphan_list_path(const char *home, struct buf *out);
