/*
 * Taking an approval back: the project gets what it had, from the copies that the record keeps (apply_txn.h).
 *
 * That is a landing of its own, with a record of its own: killed, it is finished or taken back, and it can be undone as well. If
 * something that the approval wrote is not any more as it wrote it, nothing is taken back, and the paths are told. The diary gets the grounds
 * back that were noted before. What had left the delta does not come back into it; what the agent had made is in the record of
 * the undo.
 */
#pragma once

#include "review/approve.h"

struct undo {
    char **moved; /* owned: paths that were changed since */
    size_t moved_count, moved_cap;
    size_t done_count;    /* paths that got back what they had */
    char id[ID_TEXT_MAX]; /* of the new record */
    uint64_t version;     /* of the codebase, which it made */
};

#define UNDO_NONE ((struct undo){ .moved = NULL })

struct undo_options {
    bool is_held;                              /* as in struct approve_options */
    const struct apply_txn_codebase *codebase; /* likewise */
    bool is_dry;
    const struct buf *follow_up; /* as there */
};

/* 0: done, or it would be. 1: the project has moved on, nothing was written. No such record, or one that was undone already:
 * ERR_NOT_FOUND, ERR_FAILED_PRECONDITION. */
int undo_run(const char *delta_path, const char *id, const struct undo_options *options, struct undo *ret, struct err *err);
void undo_done(struct undo *undo);

/* One approval or undo of the past. */
struct undo_entry {
    char id[ID_TEXT_MAX];
    char undoes[ID_TEXT_MAX]; /* the id of what it took back, or empty */
    int64_t time_ns;
    uint64_t version; /* of the codebase, which it made; 0: none, or it is not known */
    size_t path_count;
    bool is_undone;
};

/* The oldest first; `ret` is an array to be freed. */
int undo_list(const char *delta_path, struct undo_entry **ret, size_t *ret_count, struct err *err);
