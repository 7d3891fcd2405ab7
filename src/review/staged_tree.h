/*
 * What an approval would leave, to be tried before it lands: a new delta over the same base that holds exactly what would be written, and
 * nothing else of what the agent did. A sandbox over it sees the project as it would be.
 *
 * Each file's bytes are hashed as they lie there.
 */
#pragma once

#include "review/approve_int.h"

/* Makes the delta at `delta_path`, where nothing is. -ESTALE: something was changed while it was copied. */
int staged_tree_make(const char *delta_path, const char *base_path, int base_fd, const struct edit_list *edits,
                     const struct planned *all, struct err *err);
