/*
 * Writing what was reviewed of a delta into its base: all, files, or hunks of files, and the rest stays where it is.
 *
 * Each chosen edit must be covered by the decision (decision.h): accepted, acknowledged, shown, tried by the hooks. Then it is reconciled with
 * the project (reconcile.h). One edit that is refused, or one conflict, means that nothing is written. Then all of it lands as one
 * transaction (apply_txn.h), in the directory that is the base or as a version of the codebase whose files are. Its record is kept in
 * <delta>/meta/approvals/<id> and can be undone.
 *
 * A delta is not rewritten for what was taken from it. Its diary gets a line per path with the new ground, such that merging on it
 * gives what is left and nothing else. What was taken whole can leave the delta: `drops` says which paths, for whoever can do that (the
 * fence, behind its closed gate); until then it is no change, because it is on the ground it was noted with.
 *
 * A request is one dry run, which says what would be written, and one run, which makes all its checks anew: whatever happens between the two is
 * found out by the second.
 *
 * Killed at any moment, the project is as before or as after, and approve_recover() makes it definite. Every run does that first.
 */
#pragma once

#include "base/id.h"
#include "review/apply_txn.h"
#include "review/contribution.h"
#include "review/decision.h"
#include "review/reconcile.h"
#include "review/selection.h"

struct approve;

/* Called when nothing is in the way and nothing is written yet: adds to `out` what the caller owes afterwards (apply_txn.h). */
typedef void (*approve_owe_fn)(const struct approve *approve, struct buf *out, void *cookie);

struct approve_options {
    const struct selection *selection; /* NULL: all */
    bool is_forced;                    /* conflicts are overridden, except for files the agent never saw */
    bool is_dry;                       /* the same answer, and nothing is written */
    bool is_held;     /* the delta is in use, and the caller keeps it from changing; otherwise that is -EBUSY */
    bool is_dropping; /* the caller will drop what was taken whole: no copy of it is kept as ground */
    const struct apply_txn_codebase *codebase; /* whose files are the base; NULL: it is a directory */
    mode_t umask;                              /* of who decides; that of the process counts too */
    unsigned wait_ms;                          /* for others who write to the project or have the delta, until it is -EBUSY */
    const char
        *staged_tree_path; /* of a dry run: where a delta is made of what would be written (staged_tree.h); NULL: nowhere */
    approve_owe_fn owe;    /* NULL: nothing is owed */
    void *cookie;
};

enum approve_outcome {
    APPROVE_WHOLE,          /* all of the change is in the project, or would be */
    APPROVE_PARTLY,         /* the chosen hunks are */
    APPROVE_NOTHING,        /* it is as the project has it already, or no hunk was chosen */
    APPROVE_CONFLICT,       /* `reason` says why */
    APPROVE_STALE,          /* it is not what was shown */
    APPROVE_UNSHOWN,        /* it was never shown */
    APPROVE_UNACKNOWLEDGED, /* `acknowledge` says what for */
    APPROVE_UNACCEPTED,
};

struct approve_file {
    const struct edit *edit; /* of `edits` */
    enum approve_outcome outcome;
    enum reconcile_state state;
    const char *reason;             /* of a conflict, and of what is stale */
    enum acknowledge acknowledge;   /* APPROVE_UNACKNOWLEDGED */
    struct threeway merge;          /* of a conflict in text: its hunks */
    size_t hunk_count, hunks_taken; /* where hunks were asked for */
    bool has_lost_hunk;             /* of APPROVE_STALE: a hunk that was named is not there any more */
    struct buf merge_base;          /* of hunks: what the rest of them stands on from now on */
    mode_t merge_base_mode;
};

struct approve {
    struct edit_list edits;     /* what was chosen */
    struct approve_file *files; /* owned; one for each edit */
    struct planned *planned;    /* owned; likewise (approve_int.h) */
    size_t conflict_count, stale_count, unshown_count, unacknowledged_count, unaccepted_count;
    size_t lost_hunk_count;                /* of the stale: files that have other hunks than those that were named */
    bool lacks_hooks;                      /* the project has hooks, and nobody ran them */
    size_t taken_count;                    /* WHOLE and PARTLY */
    uint8_t digest[FILE_STATE_HASH_BYTES]; /* of all that is written, or would be; after 0 */
    char id[ID_TEXT_MAX];                  /* of the record; empty if nothing was written */
    uint64_t version;                      /* of the codebase, which it made */
    char **drops;                          /* owned: paths that can leave the delta, as fence/quiesce.h takes them: "/a/b" */
    size_t drop_count, drop_cap;
};

#define APPROVE_NONE ((struct approve){ .edits = EDIT_LIST_EMPTY })

/* 0: done, or it would be. 1: something is refused or in conflict, as `ret` says, and nothing was written. What is not accepted is told before what is not
 * acknowledged, and that before all else. -ESTALE: it is not what the hooks tried. -EBUSY: the delta is in use, or somebody else writes to the
 * same project. `ret` is filled also on failure. */
int approve_run(const char *delta_path, const struct decision *decision, const struct approve_options *options,
                struct approve *ret, struct err *err);
void approve_done(struct approve *approve);

/* What became, or would become, of a path; NULL: it was not chosen. */
const struct approve_file *approve_find(const struct approve *approve, const char *path);

/* After a dry run: what would be changed in the file; `ret->path` is left to the caller. 1; 0: it would not be written; or -errno. */
int approve_foresee(const struct approve *approve, const char *path, struct contribution *ret);

/* ---- records (approve_records.c) ---- */

/* Finishes or takes back what was cut short, and removes what it left behind. To be called when a service starts; each run does it too.
 * -EBUSY as above. */
int approve_recover(const char *delta_path, bool is_held, const struct apply_txn_codebase *codebase, struct err *err);

/* The same for a delta that is about to be removed, by which nothing in the project may become half done for ever. Success also if
 * nothing can be done: the project has gone, the record of an approval cannot be read, or it is about a version of a codebase, which is never half
 * done. */
int approve_recover_before_delete(const char *delta_path, struct err *err);

/* Whether approve_recover() or a follow-up has something to do: 1, 0 or -errno. Costs a look at one directory. */
int approve_has_unfinished(const char *delta_path, struct err *err);

/* Calls `fn` for each approval or undo whose follow-up is owed, the oldest first. A nonzero answer ends it and is returned. */
typedef int (*approve_follow_up_fn)(const char *id, const struct apply_txn_record *record, void *cookie, struct err *err);
int approve_each_follow_up(const char *delta_path, approve_follow_up_fn fn, void *cookie, struct err *err);

/* The follow-up of this one is done. */
int approve_close(const char *delta_path, const char *id, struct err *err);

/* Whether there is a record of that id, of something that was done: 1, 0 or -errno. After approve_recover() that is for good. */
int approve_was_done(const char *delta_path, const char *id, struct err *err);

const char *approve_outcome_name(enum approve_outcome outcome);
