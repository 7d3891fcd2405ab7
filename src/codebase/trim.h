/* Retention: undo layers leave from the oldest on, so every version that is left can still be reached from the current one. */
#pragma once

#include "codebase/codebase_int.h"

/* Removes the layers that the options no longer keep, and those that a trim which was killed left. Under the lock, on a settled
 * codebase. What cannot be removed now is tried again the next time. */
void trim_run(struct codebase *cb, struct codebase_meta *meta);
