/*
 * Applies the reviewed part of a delta to its base: all of it, files, or hunks of files. The rest stays in the delta.
 *
 * The decision (decision.h) must cover each chosen edit: accepted, acknowledged, shown, tested by the hooks. Then the edit is
 * reconciled with the project (reconcile.h). If one edit is refused or in conflict, nothing is written. Otherwise all edits
 * are applied as one transaction (apply_txn.h), to the directory that is the base or as a version of the codebase. Its record
 * is kept in <delta>/meta/approvals/<id> and can be undone.
 *
 * The delta itself is not rewritten. Its change log gets a line per path with the new merge base, such that a merge on it
 * yields exactly the rest. Paths that were applied whole can leave the delta: `drops` lists them for the caller that can
 * remove them (the fence, while its gate is closed). Until then they are not shown as changes, because they equal their merge
 * base.
 *
 * A request is a dry run, which reports what would be written, and a run, which makes all checks again and so notices any
 * change in between.
 *
 * If the process is killed, the project is in the state before or after, and approve_recover() completes it. Every run calls
 * that first.
 */
#pragma once

#include "base/id.h"
#include "review/apply_txn.h"
#include "review/contribution.h"
#include "review/decision.h"
#include "review/reconcile.h"
#include "review/selection.h"

struct approve;

/* Called when nothing prevents the approval and nothing is written yet: adds the caller's follow-up to `out` (apply_txn.h). */
typedef void (*approve_owe_fn)(const struct approve *approve, struct buf *out, void *cookie);

struct approve_options {
    const struct selection *selection; /* NULL: all */
    bool is_forced;                    /* overrides conflicts, except for files that the agent never saw */
    bool is_dry;                       /* same result, but nothing is written */
    bool is_held;                      /* the delta is in use, and the caller keeps it from changing; otherwise -EBUSY */
    bool is_dropping; /* the caller will drop the files that were applied whole, so no copy is kept as merge base */
    const struct apply_txn_codebase *codebase; /* the codebase whose files are the base; NULL: a directory */
    mode_t umask;                              /* the approver's; it is added to that of the process */
    unsigned wait_ms;                          /* how long to wait for the locks of the project and the delta before -EBUSY */
    const char *staged_tree_path; /* of a dry run: where to make a delta of the result (staged_tree.h); NULL: nowhere */
    approve_owe_fn owe;           /* NULL: no follow-up */
    void *cookie;
};

enum approve_outcome {
    APPROVE_WHOLE,          /* the whole change is applied, or would be */
    APPROVE_PARTLY,         /* only the chosen hunks are */
    APPROVE_NOTHING,        /* the project has it already, or no hunk was chosen */
    APPROVE_CONFLICT,       /* `reason` says why */
    APPROVE_STALE,          /* it differs from what was shown */
    APPROVE_UNSHOWN,        /* it was never shown */
    APPROVE_UNACKNOWLEDGED, /* `acknowledge` has the reason */
    APPROVE_UNACCEPTED,
};

struct approve_file {
    const struct edit *edit; /* of `edits` */
    enum approve_outcome outcome;
    enum reconcile_state state;
    const char *reason;             /* of a conflict or a stale change */
    enum acknowledge acknowledge;   /* APPROVE_UNACKNOWLEDGED */
    struct threeway merge;          /* of a conflict in text: its hunks */
    size_t hunk_count, hunks_taken; /* if hunks were chosen */
    bool has_lost_hunk;             /* of APPROVE_STALE: a chosen hunk no longer exists */
    struct buf merge_base;          /* of hunks: the merge base of the rest */
    mode_t merge_base_mode;
};

struct approve {
    struct edit_list edits;     /* the chosen ones */
    struct approve_file *files; /* owned; one for each edit */
    struct planned *planned;    /* owned; likewise (approve_int.h) */
    size_t conflict_count, stale_count, unshown_count, unacknowledged_count, unaccepted_count;
    size_t lost_hunk_count;                /* stale files whose hunks are not the chosen ones */
    bool lacks_hooks;                      /* the project has hooks that were not run */
    size_t taken_count;                    /* WHOLE and PARTLY */
    uint8_t digest[FILE_STATE_HASH_BYTES]; /* of all that is written, or would be; valid after 0 */
    char id[ID_TEXT_MAX];                  /* of the record; empty if nothing was written */
    uint64_t version;                      /* the codebase's version that it made */
    char **drops;                          /* owned: paths that can leave the delta, as fence/quiesce.h expects them: "/a/b" */
    size_t drop_count, drop_cap;
};

#define APPROVE_NONE ((struct approve){ .edits = EDIT_LIST_EMPTY })

/* 0: applied, or a dry run without obstacles. 1: `ret` has refusals or conflicts, and nothing was written. Missing
 * acceptance is reported before missing acknowledgement, and that before anything else. -ESTALE: the hooks tested something
 * else. -EBUSY: the delta is in use, or another process writes to the same project. `ret` is also filled on failure. */
int approve_run(const char *delta_path, const struct decision *decision, const struct approve_options *options,
                struct approve *ret, struct err *err);
void approve_done(struct approve *approve);

/* The result for a path; NULL: it was not chosen. */
const struct approve_file *approve_find(const struct approve *approve, const char *path);

/* After a dry run: the change that the approval would make in the file; the caller sets `ret->path`. Returns 1; 0 if
 * nothing would be written; or -errno. */
int approve_foresee(const struct approve *approve, const char *path, struct contribution *ret);

/* ---- records (approve_records.c) ---- */

/* Finishes or rolls back an interrupted transaction, and cleans up. A service calls it at start, and each run calls it too.
 * -EBUSY as above. */
int approve_recover(const char *delta_path, bool is_held, const struct apply_txn_codebase *codebase, struct err *err);

/* Called before a delta is deleted, so that the project does not stay half changed for ever. Also succeeds where nothing
 * can be done: the project is gone, the record cannot be read, or it is about a version of a codebase, which is atomic. */
int approve_recover_before_delete(const char *delta_path, struct err *err);

/* Returns 1 if approve_recover() or a follow-up has work to do, otherwise 0 or -errno. Reads one directory. */
int approve_has_unfinished(const char *delta_path, struct err *err);

/* Calls `fn` for each approval or undo that needs its follow-up, the oldest first. A nonzero result ends the loop and is
 * returned. */
typedef int (*approve_follow_up_fn)(const char *id, const struct apply_txn_record *record, void *cookie, struct err *err);
int approve_each_follow_up(const char *delta_path, approve_follow_up_fn fn, void *cookie, struct err *err);

/* Marks the follow-up as done. */
int approve_close(const char *delta_path, const char *id, struct err *err);

/* Returns 1 if there is a record of this id and it was applied, otherwise 0 or -errno. The answer is final after
 * approve_recover(). */
int approve_was_done(const char *delta_path, const char *id, struct err *err);

const char *approve_outcome_name(enum approve_outcome outcome);
