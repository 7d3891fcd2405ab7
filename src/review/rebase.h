/*
 * Rebases the agent's files onto the project as it is now.
 *
 *     rebase_plan      reconciles each edit whose merge base has moved, and prepares the result
 *     (the caller)     fence_resume() or delta_revert() with `changes`: merged texts replace the files, dropped edits leave
 *     rebase_finish    notes the new merge bases
 *
 * The order matters: with a note but without its text, the agent's old file would revert the owner's work; a text without its
 * note is merged once more, with the same result. An approval needs no rebase as long as the edits merge: a rebase shows the
 * project's changes to the agent, and resolves conflicts.
 *
 * An unresolved conflict stays as it is, in the delta and in the change log.
 */
#pragma once

#include "fence/quiesce.h"
#include "review/reconcile.h"
#include "review/selection.h"

enum rebase_strategy {
    REBASE_REGENERATE, /* only reports what a diff against the project shows now */
    REBASE_MERGE,      /* merges where possible; conflicts stay */
    REBASE_OURS,       /* in conflicts the project's side wins; an edit that cannot be merged is given up */
    REBASE_THEIRS,     /* in conflicts the agent's side wins */
};

enum rebase_outcome {
    REBASE_UNMOVED,  /* the project has what the agent worked from */
    REBASE_MERGED,   /* the agent's file has both */
    REBASE_GIVEN_UP, /* the project's version wins, the edit leaves the delta */
    REBASE_KEPT,     /* the agent's version wins, on the new merge base */
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
    struct buf notes; /* the notes that rebase_finish() writes */
};

#define REBASE_NONE ((struct rebase){ .edits = EDIT_LIST_EMPTY })

/* The delta must be at rest or quiesced. Writes only copies of merge bases, which nothing refers to yet. */
int rebase_plan(const char *delta_path, const struct selection *selection, enum rebase_strategy strategy, struct rebase *ret,
                struct err *err);
int rebase_finish(const struct rebase *rebase, struct err *err);
void rebase_done(struct rebase *rebase);

/* "regenerate", "merge", "ours", "theirs". */
int rebase_parse_strategy(const char *text, enum rebase_strategy *ret, struct err *err);
const char *rebase_outcome_name(enum rebase_outcome outcome);
