/* What the files of workspace rows share. */
#pragma once

#include "store/db.h"
#include "store/workspace_row.h"

/* Whether a workspace that gave up what it had reserved may have it again: SCOPE_CONFLICT, and as one more, if `is_counted`,
 * TOO_MANY_SANDBOXES. No other comes between this and the end of the transaction. */
int workspace_row_check_room(struct db *db, const char *id, bool is_counted, struct workspace_insertion *insertion,
                             struct err *err);
