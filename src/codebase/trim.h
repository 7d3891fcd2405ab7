/* Retention: undo layers are removed from the oldest on, so every remaining version can be reached from the current one. */
#pragma once

#include "codebase/codebase_int.h"

/* Moves aside the layers beyond the retention, and layers that a killed trim left. Needs the lock and a settled codebase. A
 * failed step is repeated next time. Returns true if there is something to sweep. */
bool trim_run(struct codebase *cb, struct codebase_meta *meta);

/* Removes the layers that were moved aside. Without the lock, because it may take a while. */
void trim_sweep(struct codebase *cb);
