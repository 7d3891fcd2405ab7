/*
 * One edit of the agent's against the project as it is now.
 *
 * Three versions: what the agent worked from (its ground: the pre-image that the fence kept, or the project itself where that has not
 * changed), what the project has now, and what the agent made of it. If the project still has the ground, the edit lands as it is. If it
 * has moved on, both are merged, if both are text and the ground is known; otherwise that is a conflict, and the reason says which.
 *
 * That the agent read one version, the project was saved, and the agent then wrote over it is a conflict always: the ground is not what
 * the agent had in mind.
 */
#pragma once

#include "review/edit.h"
#include "review/file_state.h"
#include "review/threeway.h"

enum reconcile_state {
    RECONCILE_CLEAN,  /* the project has what the agent worked from */
    RECONCILE_MERGES, /* it has something else, and both go together */
    RECONCILE_CONFLICT,
};

struct reconcile {
    enum reconcile_state state;
    const char *reason;  /* of a conflict: "has changed in the project meanwhile" */
    bool is_hard;        /* nothing overrides it */
    bool has_merge_base; /* `merge_base` says something */
    struct file_state merge_base, project, agent;
    struct file_state result; /* what the project gets when the edit lands; of a conflict, what it gets by force */
    struct threeway merge;    /* of a conflict in text: its hunks */
};

#define RECONCILE_EMPTY ((struct reconcile){ .reason = NULL })

/* `favor` says who wins where both changed the same lines; then that is no conflict. */
int reconcile_make(const struct edit_list *list, const struct edit *edit, enum threeway_favor favor, struct reconcile *ret,
                   struct err *err);
void reconcile_done(struct reconcile *reconcile);

const char *reconcile_state_name(enum reconcile_state state);
