/* Retention: undo layers leave from the oldest on, so every version that is left can still be reached from the current one. */
#pragma once

#include "codebase/codebase_int.h"

/* Takes out the layers that the options no longer keep, and those that a trim which was killed left. Under the lock, on a settled
 * codebase. What fails now is tried again the next time. True: there is something to sweep. */
bool trim_run(struct codebase *cb, struct codebase_meta *meta);

/* Removes what was taken out. Without the lock, because it may take a while. */
void trim_sweep(struct codebase *cb);
