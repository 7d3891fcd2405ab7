/*
 * Makes the tree that an approval would leave, for tests before it is applied: a new delta over the same base that holds
 * exactly what would be written, and none of the agent's other changes. A sandbox over it sees the project as it would be.
 *
 * Each file's bytes are hashed as they are in the tree.
 */
#pragma once

#include "review/approve_int.h"

/* Makes the delta at `delta_path`, which must not exist. -ESTALE: a file changed while it was copied. */
int staged_tree_make(const char *delta_path, const char *base_path, int base_fd, const struct edit_list *edits,
                     const struct planned *all, struct err *err);
