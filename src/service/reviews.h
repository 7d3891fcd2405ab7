/*
 * Reviewing workspaces: what the agent changed, and what becomes of it. The use cases on top of review/.
 *
 * What was reviewed is what is applied. Whoever approves names the hash of the diff that they saw, or else every change must be as it was
 * when it was last shown (a record of that is kept with the workspace); `is_forced` overrides that, and is told in the audit. Who chooses
 * hunks is held to the project as it was shown, too; a file that is taken whole is merged with what the project has by then.
 *
 * Each operation has the workspace for itself. One that decides about all changes ends its processes and its mount first, and the
 * changes stay on disk until it is collected; one that decides about some of them holds the sandbox still, and its processes live
 * on. (A driver that cannot be held is stopped, and started again afterwards.)
 *
 * Killed at any moment, the project is as before or as after. What an approval owes then, such as rows of provenance, is in the record of its
 * landing, and is done by the next one who takes the workspace (review_record.c).
 */
#pragma once

#include "review/acceptance.h"
#include "review/approve.h"
#include "review/change_set.h"
#include "review/conflict.h"
#include "review/rebase.h"
#include "review/undo.h"
#include "service/hook_box.h"
#include "service/sandbox_care.h"

/* ---- looking ---- */

struct review_diff {
    struct sandbox_row row;
    char *delta_path, *prefix; /* owned */
    struct change_set set;
    struct acceptance acceptance;
    char hash[CHANGE_SET_HASH_MAX]; /* of all changes; after reviews_diff_hash() */
};

#define REVIEW_DIFF_NONE ((struct review_diff){ .set = { .edits = EDIT_LIST_EMPTY } })

/* Walks the delta; contents are the caller's to read (review/file_diff.h). ERR_FAILED_PRECONDITION, INVALID_STATE, for one that is being
 * made or was deleted. */
int reviews_diff(struct service *service, const struct caller *caller, const char *id, struct review_diff *ret,
                 struct err *err);

/* Makes the hash of all, of what was read of each. */
int reviews_diff_hash(struct service *service, struct review_diff *diff, struct err *err);

/* The changes at `places` were shown as they are in the set now. To be called when their text has been sent whole, and not before: they may be
 * approved then. */
int reviews_diff_note(struct service *service, const struct review_diff *diff, const size_t *places, size_t count,
                      struct err *err);

/* The same for who has shown what was read earlier: `hashes` of files by their ids or paths, as a diff has them. How many of them have changes, whichever
 * these are now: whether they are those is seen when they are approved. */
int reviews_diff_shown(struct service *service, const struct caller *caller, const char *id, const json_t *hashes,
                       size_t *ret_count, struct err *err);
void review_diff_done(struct review_diff *diff);

/* What was approved of it and undone, the oldest first; an array to be freed. */
int reviews_approvals(struct service *service, const struct caller *caller, const char *id, struct undo_entry **ret,
                      size_t *ret_count, struct err *err);

/* ---- approving ---- */

/* Hunks of one file, which is named by either. */
struct review_hunks {
    const char *file_id, *path; /* "": the other */
    const char *const *ids;
    size_t id_count;
    const struct selection_range *ranges;
    size_t range_count;
};

/* All borrowed; paths from the root of the project or of the sandbox, a directory's means all in it. With neither files nor hunks: all. */
struct review_choice {
    const char *const *file_ids, *const *paths;
    size_t file_id_count, path_count;
    const struct review_hunks *hunks;
    size_t hunk_count;
    bool only_hunks; /* file_ids take no file whole: they are those of the hunks */
};

struct review_approval {
    struct review_choice choice;
    const char *diff_hash; /* "": what was shown last */
    const json_t *
        hashes; /* of what was seen of each file, by its id or path; every one that is chosen must be as that. NULL: see above */
    bool is_forced, is_dry, overrides_acceptance, creates_commit;
    bool runs_hooks;   /* also of a dry run */
    bool skips_hooks;  /* --no-verify: who is no administrator may not, unless the server is configured so */
    bool is_automatic; /* decided by the sandbox's acceptance, which judged what diff_hash names */
    bool acknowledges_all;
    bool may_stop;                   /* as of a review_decision */
    const char *const *acknowledged; /* reasons, paths or file ids */
    size_t acknowledged_count;
    const char *actor, *message; /* "": the caller, the template */
    int64_t version;
    mode_t umask; /* of who approves; that of the process counts too */
};

enum review_verdict {
    REVIEW_VERDICT_LEFT,    /* not chosen */
    REVIEW_VERDICT_SKIPPED, /* all were chosen, and its acceptance does not let it in */
    REVIEW_VERDICT_APPLIED,
    REVIEW_VERDICT_PARTLY,
    REVIEW_VERDICT_NOTHING, /* the project has it already */
    REVIEW_VERDICT_CONFLICT,
    REVIEW_VERDICT_STALE,          /* it is not what was shown */
    REVIEW_VERDICT_UNSHOWN,        /* it was never shown */
    REVIEW_VERDICT_REFUSED,        /* chosen by name, and not accepted */
    REVIEW_VERDICT_UNACKNOWLEDGED, /* it needs a word of its own */
};

const char *review_verdict_name(enum review_verdict verdict);

struct review_approved {
    struct sandbox_row row;
    struct change_set set; /* before it */
    struct acceptance acceptance;
    struct approve approve;
    enum review_verdict *verdicts;     /* owned; one for each of the set */
    const struct approve_file **files; /* owned array; likewise, NULL: none */
    size_t applied, remaining;         /* files */
    char hash[CHANGE_SET_HASH_MAX];    /* of the set */
    bool was_approved_before;
    char commit_hash[65];
    char commit_error[512];    /* it was applied, and could not be committed */
    char note[512];            /* it was applied, and something else is still to be done */
    struct hook_results hooks; /* those that were run, or would have been */
    int64_t applied_ns;
};

#define REVIEW_APPROVED_NONE ((struct review_approved){ .set = { .edits = EDIT_LIST_EMPTY }, .approve = APPROVE_NONE })

/* Nothing was written when it fails; `ret` then says what of each file, as far as it came, with the reasons DIFF_STALE, DIFF_NOT_SERVED,
 * CONFLICTS, NOT_ACCEPTED, UNACKNOWLEDGED, FILE_UNKNOWN, HUNK_UNKNOWN, NO_REPOSITORY, HOOK_FAILED, HOOKS_UNREADABLE,
 * NO_VERIFY_REFUSED, WOULD_STOP. */
int reviews_approve(struct service *service, const struct caller *caller, const char *id, const struct review_approval *request,
                    struct review_approved *ret, struct err *err);
void review_approved_done(struct review_approved *approved);

/* ---- the rest ---- */

int reviews_reject(struct service *service, const struct caller *caller, const char *id, const char *actor, int64_t version,
                   struct sandbox_row *ret, struct err *err);

/* ---- the end of the work (review_auto.c) ---- */

/* "completed", "failed", "cancelled". */
bool review_outcome_parse(const char *name, enum behavior_event *ret);

struct review_finish {
    struct sandbox_row row;
    const char *decision; /* a literal: "approved", "rejected", "none" */
    char reason[512];     /* "" when nothing was to be decided */
    char approval_id[ID_TEXT_MAX];
    size_t applied;
};

/* The agent's run is over: decides what its behaviour lets be decided without a person, and does what its lifecycle says of the event. One
 * that was approved or rejected before is fine. */
int reviews_finish(struct service *service, const struct caller *caller, const char *id, enum behavior_event event,
                   const char *actor, int64_t version, struct review_finish *ret, struct err *err);
void review_finish_done(struct review_finish *finish);

/* Who decides, on which version. Where a driver cannot hold it still, or cannot give up changes while it runs, it may have to be stopped and started
 * again: its processes end. Without `may_stop` that is WOULD_STOP. */
struct review_decision {
    const char *actor; /* "": the caller */
    int64_t version;   /* 0: any */
    bool may_stop;
};

struct review_discarded {
    char **files; /* owned; from the sandbox's root */
    size_t file_count, file_cap;
    char **unknown; /* owned: what was named and has no change */
    size_t unknown_count, unknown_cap;
    size_t remaining;
};

int reviews_discard(struct service *service, const struct caller *caller, const char *id, const struct review_choice *choice,
                    const struct review_decision *decision, struct review_discarded *ret, struct err *err);
void review_discarded_done(struct review_discarded *discarded);

struct review_conflict_report {
    struct sandbox_row row;
    char *prefix; /* owned */
    struct conflict_report report;
    char head[65]; /* of the project's repository now; "": none */
};

#define REVIEW_CONFLICT_REPORT_NONE ((struct review_conflict_report){ .report = CONFLICT_REPORT_NONE })

int reviews_conflicts(struct service *service, const struct caller *caller, const char *id, struct review_conflict_report *ret,
                      struct err *err);
void review_conflict_report_done(struct review_conflict_report *report);

struct review_rebased {
    struct sandbox_row row;
    char *prefix; /* owned */
    struct rebase rebase;
    char old_head[65], new_head[65];
};

#define REVIEW_REBASED_NONE ((struct review_rebased){ .rebase = REBASE_NONE })

int reviews_rebase(struct service *service, const struct caller *caller, const char *id, enum rebase_strategy strategy,
                   const struct review_decision *decision, struct review_rebased *ret, struct err *err);
void review_rebased_done(struct review_rebased *rebased);

struct review_undone {
    struct sandbox_row row;
    char *prefix; /* owned */
    char undoes[ID_TEXT_MAX];
    size_t path_count; /* that the approval wrote */
    struct undo undo;
    char note[512]; /* it was undone, and something else is still to be done */
};

/* `approval_id` "": the last that was not undone. 1: the project has moved on, nothing was written. */
int reviews_undo(struct service *service, const struct caller *caller, const char *id, const char *approval_id, bool is_dry,
                 const struct review_decision *decision, struct review_undone *ret, struct err *err);
void review_undone_done(struct review_undone *undone);
