/*
 * Reconciles one of the agent's edits with the project as it is now.
 *
 * There are three versions: the merge base, which is what the agent worked from (the pre-image that the fence kept, or the
 * project's file if that has not changed), the project's, and the agent's. If the project still has the merge base, the edit
 * is applied as it is. Otherwise both are merged, if both are text and the merge base is known; if not, that is a conflict
 * with a reason.
 *
 * It is always a conflict if the agent read one version, the project was changed, and the agent then overwrote it: the merge
 * base is not the version that the agent had read.
 */
#pragma once

#include "review/edit.h"
#include "review/file_state.h"
#include "review/threeway.h"

enum reconcile_state {
    RECONCILE_CLEAN,  /* the project has what the agent worked from */
    RECONCILE_MERGES, /* it has something else, and both merge */
    RECONCILE_CONFLICT,
};

struct reconcile {
    enum reconcile_state state;
    const char *reason;  /* of a conflict: "has changed in the project meanwhile" */
    bool is_hard;        /* force does not override it */
    bool has_merge_base; /* `merge_base` is valid */
    struct file_state merge_base, project, agent;
    struct file_state result; /* the project's new state when the edit is applied; of a conflict, when it is forced */
    struct threeway merge;    /* of a conflict in text: its hunks */
};

#define RECONCILE_EMPTY ((struct reconcile){ .reason = NULL })

/* `favor` decides who wins where both changed the same lines; that is then not a conflict. */
int reconcile_make(const struct edit_list *list, const struct edit *edit, enum threeway_favor favor, struct reconcile *ret,
                   struct err *err);
void reconcile_done(struct reconcile *reconcile);

const char *reconcile_state_name(enum reconcile_state state);
