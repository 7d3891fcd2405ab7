/* Shared by the files of sandbox rows. Private to this module. */
#pragma once

#include "store/db.h"
#include "store/sandbox_row.h"
#include "store/table.h"

extern const struct table sandbox_table;

/* " AND ...": sandboxes that hold their reserved paths. */
#define SANDBOX_HOLDS                                                                                                          \
    " AND decision = 0 AND no_lock = 0 AND (status IN (1, 2, 3, 5, 6, 7, 8) OR (status = 4 AND deleted_ns = 0))"

/* In a transaction: checks the limits and paths of a sandbox that is inserted or restored. Locks them until the end of the
 * transaction. `is_new`: it counts as one more. */
int sandbox_admission_check(struct db *db, const struct sandbox_row *row, bool is_new, struct sandbox_admission *room,
                            struct err *err);

/* Adds " AND (...)" for the statuses of these states. */
void sandbox_row_add_states(struct query *query, unsigned states);
