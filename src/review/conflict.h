/*
 * Compares each edit of a delta with the project as it is now: whether it can be applied as it is, is merged, or is in
 * conflict. The project's files count as they are in its directory, committed or not.
 *
 * Nothing is written or locked: the result holds for the moment at which each file was read.
 */
#pragma once

#include "review/reconcile.h"
#include "review/selection.h"

struct conflict_file {
    const struct edit *edit; /* of `edits` */
    enum reconcile_state state;
    const char *reason;    /* of a conflict */
    bool has_moved;        /* the project differs from what the agent worked from */
    struct threeway merge; /* of a conflict in text: its hunks, and the text with markers */
};

struct conflict_report {
    struct edit_list edits;
    struct conflict_file *files; /* owned; one for each edit */
    size_t moved_count, merge_count, conflict_count;
};

#define CONFLICT_REPORT_NONE ((struct conflict_report){ .edits = EDIT_LIST_EMPTY })

/* `selection` may be NULL: all edits. */
int conflict_report_make(const char *delta_path, const struct selection *selection, struct conflict_report *ret,
                         struct err *err);
void conflict_report_done(struct conflict_report *report);
