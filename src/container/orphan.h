/*
 * Containers that nobody has a use for any more: of sandboxes of our own home whose supervisor is gone. An engine takes away a
 * container whose init has ended, and init ends with its supervisor; what remains is what was made and never started, and what an
 * engine that was itself killed forgot. Known by labels: whatever has others, or another home's, is not touched.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "container/engine.h"
#include "runtime/docker_order.h"

/* By id or name; also one that runs. Returns when it is gone, waiting up to `wait_ms` for an engine that is at it already. */
int orphan_remove(struct engine *engine, const char *id, int wait_ms, struct err *err);

/* Those of our own sandbox, all of them. Those of others too whose lock is free; what goes wrong with these is nobody's trouble. */
int orphan_sweep(struct engine *engine, const struct docker_order *order, struct err *err);

/* The path of the API that lists them. */
void orphan_list_path(const char *home, struct buf *out);
