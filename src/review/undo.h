/*
 * Undoes an approval: the project gets its old files back, from the copies in the record (apply_txn.h).
 *
 * An undo is a transaction with a record of its own: after a kill it is finished or rolled back, and it can itself be undone.
 * If a file that the approval wrote has changed since, nothing is undone, and the paths are reported. The change log gets the
 * earlier merge bases back. What had left the delta does not come back into it; the agent's files are in the record of the
 * undo.
 */
#pragma once

#include "review/approve.h"

struct undo {
    char **moved; /* owned: paths that were changed since */
    size_t moved_count, moved_cap;
    size_t done_count;    /* paths that were restored */
    char id[ID_TEXT_MAX]; /* of the new record */
    uint64_t version;     /* the codebase's version that it made */
};

#define UNDO_NONE ((struct undo){ .moved = NULL })

struct undo_options {
    bool is_held;                              /* as in struct approve_options */
    const struct apply_txn_codebase *codebase; /* likewise */
    bool is_dry;
    const struct buf *follow_up; /* as there */
};

/* 0: done, or a dry run without obstacles. 1: the project has changed, nothing was written. An unknown record, or one that
 * is already undone: ERR_NOT_FOUND, ERR_FAILED_PRECONDITION. */
int undo_run(const char *delta_path, const char *id, const struct undo_options *options, struct undo *ret, struct err *err);
void undo_done(struct undo *undo);

/* A past approval or undo. */
struct undo_entry {
    char id[ID_TEXT_MAX];
    char undoes[ID_TEXT_MAX]; /* the id of the record it undid, or empty */
    int64_t time_ns;
    uint64_t version; /* the codebase's version that it made; 0: none, or unknown */
    size_t path_count;
    bool is_undone;
};

/* The oldest first; `ret` is an array to be freed. */
int undo_list(const char *delta_path, struct undo_entry **ret, size_t *ret_count, struct err *err);
