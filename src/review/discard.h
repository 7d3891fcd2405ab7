/*
 * Discards chosen edits: lists the paths that must leave the delta, so that they show the project again. The fence removes
 * them (fence/quiesce.h), or delta_revert() (fence/quiesce.h) if the delta is at rest.
 *
 * A file that was deleted with its directory, or is in a directory that was created anew, cannot come back without that
 * directory: it is refused, unless the directory is chosen, too.
 */
#pragma once

#include "review/selection.h"

struct discard {
    struct edit_list edits; /* the chosen ones */
    char **drops;           /* owned: "/a/b" */
    size_t drop_count, drop_cap;
};

#define DISCARD_NONE ((struct discard){ .edits = EDIT_LIST_EMPTY })

/* Hunks cannot be discarded: ERR_INVALID_ARGUMENT. */
int discard_plan(const char *delta_path, const struct selection *selection, struct discard *ret, struct err *err);
void discard_done(struct discard *discard);
