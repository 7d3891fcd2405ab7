/*
 * Giving up chosen edits: which paths have to leave the delta for it, so that they show the project again. The fence takes them out
 * (fence/quiesce.h), or fence/quiesce.h's delta_revert() of a delta at rest.
 *
 * A file that was deleted together with its directory, or in a directory that was made anew, cannot come back without it: it is refused,
 * unless that directory is chosen, too.
 */
#pragma once

#include "review/selection.h"

struct discard {
    struct edit_list edits; /* what was chosen */
    char **drops;           /* owned: "/a/b" */
    size_t drop_count, drop_cap;
};

#define DISCARD_NONE ((struct discard){ .edits = EDIT_LIST_EMPTY })

/* Hunks cannot be discarded: ERR_INVALID_ARGUMENT. */
int discard_plan(const char *delta_path, const struct selection *selection, struct discard *ret, struct err *err);
void discard_done(struct discard *discard);
