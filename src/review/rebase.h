/*
 * Bringing the agent's files onto the project as it is now.
 *
 *     rebase_plan      reconciles each edit whose ground has moved, and makes what shall become of it
 *     (the caller)     fence_resume() or delta_revert() with `changes`: merged texts replace the delta's, given-up edits leave it
 *     rebase_finish    notes the new grounds
 *
 * In this order: a note without its text would make the agent's old file revert what the project's owner did; a text without its note
 * is merged once more, with the same result. For approving a rebase is not needed, as long as things merge: it is for the agent to see
 * the project's changes, and for conflicts to be decided.
 *
 * A conflict that is left is left as it is, in the delta and in the diary.
 */
#pragma once

#include "fence/quiesce.h"
#include "review/reconcile.h"
#include "review/selection.h"

enum rebase_strategy {
    REBASE_REGENERATE, /* only looks: what a diff against the project shows now */
    REBASE_MERGE,      /* what merges is merged; conflicts are left */
    REBASE_OURS,       /* in conflicts the project's side counts; what cannot be merged is given up by the agent */
    REBASE_THEIRS,     /* in conflicts the agent's side counts */
};

enum rebase_outcome {
    REBASE_UNMOVED,  /* the project has what the agent worked from */
    REBASE_MERGED,   /* the agent's file has both */
    REBASE_GIVEN_UP, /* the project's counts, the edit leaves the delta */
    REBASE_KEPT,     /* the agent's counts, on the new ground */
    REBASE_CONFLICT,
};

struct rebase_file {
    const struct edit *edit;
    enum rebase_outcome outcome;
    const char *reason;    /* of a conflict */
    struct threeway merge; /* of a conflict in text */
};

struct rebase {
    struct edit_list edits;
    struct rebase_file *files; /* owned; one for each edit */
    size_t moved_count, conflict_count;
    struct fence_revert *changes; /* owned, with paths and descriptors: for the fence */
    size_t change_count, change_cap;
    struct buf notes; /* what rebase_finish() takes down */
};

#define REBASE_NONE ((struct rebase){ .edits = EDIT_LIST_EMPTY })

/* The delta must be at rest or held. Writes nothing but copies of grounds, which nobody knows of yet. */
int rebase_plan(const char *delta_path, const struct selection *selection, enum rebase_strategy strategy, struct rebase *ret,
                struct err *err);
int rebase_finish(const struct rebase *rebase, struct err *err);
void rebase_done(struct rebase *rebase);

/* "regenerate", "merge", "ours", "theirs". */
int rebase_parse_strategy(const char *text, enum rebase_strategy *ret, struct err *err);
const char *rebase_outcome_name(enum rebase_outcome outcome);
