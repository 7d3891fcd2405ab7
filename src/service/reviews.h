/*
 * Reviews of sandboxes: shows the agent's changes, and approves, rejects or discards them. These are the use cases on top of
 * review/.
 *
 * Only what was reviewed is applied. The approver names the hash of the diff that they saw; otherwise every change must be as
 * it was when it was last shown (a record of that is kept with the sandbox). `is_forced` overrides that, and the audit records
 * it. For chosen hunks, the project must be as it was shown, too; a whole file is merged with the project's present version.
 *
 * Each operation locks the sandbox. One that decides about all changes first ends its processes and its mount, and the changes
 * stay on disk until the sandbox is collected; one that decides about some changes quiesces the sandbox, and its processes
 * live on. (A driver that cannot be quiesced is stopped, and started again afterwards.)
 *
 * After a kill at any moment, the project is in the state before or after. The follow-up of an approval, such as rows of
 * provenance, is in the record of its transaction, and the next operation on the sandbox completes it (review_record.c).
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

/* ---- diff ---- */

struct review_diff {
    struct sandbox_row row;
    char *delta_path, *prefix; /* owned */
    struct change_set set;
    struct acceptance acceptance;
    char hash[CHANGE_SET_HASH_MAX]; /* of all changes; set by reviews_diff_hash() */
};

#define REVIEW_DIFF_NONE ((struct review_diff){ .set = { .edits = EDIT_LIST_EMPTY } })

/* Walks the delta; the caller reads the contents (review/file_diff.h). ERR_FAILED_PRECONDITION, INVALID_STATE for a sandbox
 * that is being created or was deleted. */
int reviews_diff(struct service *service, const struct caller *caller, const char *id, struct review_diff *ret,
                 struct err *err);

/* Makes the hash of all changes from the contents read for each. */
int reviews_diff_hash(struct service *service, struct review_diff *diff, struct err *err);

/* Notes that the changes at `places` were shown as they are in the set now, so that they may be approved. Must be called
 * only after their text was sent completely. */
int reviews_diff_note(struct service *service, const struct review_diff *diff, const size_t *places, size_t count,
                      struct err *err);

/* The same for a caller that showed them earlier: `hashes` of files by their ids or paths, as in a diff. Counts the files
 * that have changes, even different ones: an approval compares them. */
int reviews_diff_shown(struct service *service, const struct caller *caller, const char *id, const json_t *hashes,
                       size_t *ret_count, struct err *err);
void review_diff_done(struct review_diff *diff);

/* The approvals of the sandbox and their undos, the oldest first; an array to be freed. */
int reviews_approvals(struct service *service, const struct caller *caller, const char *id, struct undo_entry **ret,
                      size_t *ret_count, struct err *err);

/* ---- approving ---- */

/* Hunks of one file, which is named by its id or its path. */
struct review_hunks {
    const char *file_id, *path; /* "": use the other */
    const char *const *ids;
    size_t id_count;
    const struct selection_range *ranges;
    size_t range_count;
};

/* All borrowed; paths start at the root of the project or of the sandbox, and a directory means all in it. Neither files
 * nor hunks: all changes. */
struct review_choice {
    const char *const *file_ids, *const *paths;
    size_t file_id_count, path_count;
    const struct review_hunks *hunks;
    size_t hunk_count;
    bool only_hunks; /* file_ids choose no whole files: they are those of the hunks */
};

struct review_approval {
    struct review_choice choice;
    const char *diff_hash; /* "": the version last shown */
    const json_t *hashes;  /* the hashes seen of each file, by its id or path; every chosen one must match. NULL: see above */
    bool is_forced, is_dry, overrides_acceptance, creates_commit;
    bool runs_hooks;   /* also in a dry run */
    bool skips_hooks;  /* --no-verify: only for administrators, unless the server is configured otherwise */
    bool is_automatic; /* decided by the sandbox's acceptance rules, for the diff of diff_hash */
    bool acknowledges_all;
    bool may_stop;                   /* as in review_decision */
    const char *const *acknowledged; /* reasons, paths or file ids */
    size_t acknowledged_count;
    const char *actor, *message; /* "": the caller; the template */
    int64_t version;
    mode_t umask; /* the approver's; it is added to that of the process */
};

enum review_verdict {
    REVIEW_VERDICT_LEFT,    /* not chosen */
    REVIEW_VERDICT_SKIPPED, /* all were chosen, but the acceptance rules exclude it */
    REVIEW_VERDICT_APPLIED,
    REVIEW_VERDICT_PARTLY,
    REVIEW_VERDICT_NOTHING, /* the project has it already */
    REVIEW_VERDICT_CONFLICT,
    REVIEW_VERDICT_STALE,          /* it differs from what was shown */
    REVIEW_VERDICT_UNSHOWN,        /* it was never shown */
    REVIEW_VERDICT_REFUSED,        /* chosen by name, but not accepted */
    REVIEW_VERDICT_UNACKNOWLEDGED, /* it needs acknowledgement */
};

const char *review_verdict_name(enum review_verdict verdict);

struct review_approved {
    struct sandbox_row row;
    struct change_set set; /* before the approval */
    struct acceptance acceptance;
    struct approve approve;
    enum review_verdict *verdicts;     /* owned; one for each of the set */
    const struct approve_file **files; /* owned array; one for each of the set, NULL: none */
    size_t applied, remaining;         /* files */
    char hash[CHANGE_SET_HASH_MAX];    /* of the set */
    bool was_approved_before;
    char commit_hash[65];
    char commit_error[512];    /* it was applied, but the commit failed */
    char note[512];            /* it was applied, but some of the follow-up failed */
    struct hook_results hooks; /* the hooks that were run, or would have been */
    int64_t applied_ns;
};

#define REVIEW_APPROVED_NONE ((struct review_approved){ .set = { .edits = EDIT_LIST_EMPTY }, .approve = APPROVE_NONE })

/* Nothing is written if it fails; `ret` then has the verdicts so far, with the reasons DIFF_STALE, DIFF_NOT_SERVED,
 * CONFLICTS, NOT_ACCEPTED, UNACKNOWLEDGED, FILE_UNKNOWN, HUNK_UNKNOWN, NO_REPOSITORY, HOOK_FAILED, HOOKS_UNREADABLE,
 * NO_VERIFY_REFUSED, WOULD_STOP. */
int reviews_approve(struct service *service, const struct caller *caller, const char *id, const struct review_approval *request,
                    struct review_approved *ret, struct err *err);
void review_approved_done(struct review_approved *approved);

/* ---- other decisions ---- */

int reviews_reject(struct service *service, const struct caller *caller, const char *id, const char *actor, int64_t version,
                   struct sandbox_row *ret, struct err *err);

/* ---- the end of the agent's run (review_auto.c) ---- */

/* "completed", "failed", "cancelled". */
bool review_outcome_parse(const char *name, enum behavior_event *ret);

struct review_finish {
    struct sandbox_row row;
    const char *decision; /* a literal: "approved", "rejected", "none" */
    char reason[512];     /* "" if nothing had to be decided */
    char approval_id[ID_TEXT_MAX];
    size_t applied;
};

/* Called after the agent's run: decides what the sandbox's behaviour allows to be decided without a person, and does what
 * its lifecycle specifies for the event. An already approved or rejected sandbox is not an error. */
int reviews_finish(struct service *service, const struct caller *caller, const char *id, enum behavior_event event,
                   const char *actor, int64_t version, struct review_finish *ret, struct err *err);
void review_finish_done(struct review_finish *finish);

/* Who decides, and on which version. A driver that cannot be quiesced, or cannot drop changes while it runs, may have to be
 * stopped and started again, which ends the sandbox's processes. Without `may_stop` that is WOULD_STOP. */
struct review_decision {
    const char *actor; /* "": the caller */
    int64_t version;   /* 0: any */
    bool may_stop;
};

struct review_discarded {
    char **files; /* owned; from the sandbox's root */
    size_t file_count, file_cap;
    char **unknown; /* owned: names without a change */
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
    char head[65]; /* HEAD of the project's repository; "": none */
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
    size_t path_count; /* paths that the approval wrote */
    struct undo undo;
    char note[512]; /* it was undone, but some of the follow-up failed */
};

/* `approval_id` "": the last one that was not undone. Returns 1 if the project has changed; nothing was written then. */
int reviews_undo(struct service *service, const struct caller *caller, const char *id, const char *approval_id, bool is_dry,
                 const struct review_decision *decision, struct review_undone *ret, struct err *err);
void review_undone_done(struct review_undone *undone);
