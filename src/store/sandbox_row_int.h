/* Inside the module: what the files of sandbox rows share. */
#pragma once

#include "store/db.h"
#include "store/sandbox_row.h"
#include "store/table.h"

extern const struct table sandbox_table;

/* " AND ...": those that hold the paths they reserved. */
#define SANDBOX_HOLDS                                                                                                          \
    " AND decision = 0 AND no_lock = 0 AND (status IN (1, 2, 3, 5, 6, 7, 8) OR (status = 4 AND deleted_ns = 0))"

/* Within a job: whether there is room for this sandbox, which is not there yet or comes back. No other comes between this and the end of the
 * transaction. `is_new`: it counts as one more. */
int sandbox_admission_check(struct db *db, const struct sandbox_row *row, bool is_new, struct sandbox_admission *room,
                            struct err *err);

/* " AND (...)" for statuses of a state. */
void sandbox_row_add_states(struct query *query, unsigned states);
