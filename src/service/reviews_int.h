/* Internal: shared by the files of reviews. */
#pragma once

#include "service/hook_box.h"
#include "service/life.h"
#include "service/reviews.h"
#include "service/sandbox_tend.h"

/* Writes the event of a decision to the store before the decision is acknowledged, so that later questions about a file
 * find it. */
void review_tell(struct service *service, const struct caller *caller, const struct sandbox_row *row, const char *type,
                 const char *claimed, json_t *details);

/* ---- the lock of a sandbox under review (review_lock.c) ---- */

struct review_lock {
    struct service *service;
    const struct caller *caller;
    struct sandbox_conn *conn; /* owned, its `life` is locked */
    struct sandbox_row row;
    char *delta_path, *prefix; /* owned; the scope from the project's root: "services/api", or "" */
    int dir_fd;                /* owned: the sandbox's directory */
    int dir_lock_fd;           /* owned: the lock of a stopped sandbox, so that nobody starts or changes it; -1: it runs */
    int fd;                    /* owned: the connection that quiesces it; -1: nothing runs */
    char *payload;             /* owned */
    struct codebase *codebase; /* owned; the codebase whose files are the base; NULL: a directory */
    struct apply_txn_codebase lands;
    char *message, *by; /* owned: the texts of `lands` */
    bool may_stop;      /* it may be stopped, and started again, if it cannot be quiesced */
    bool starts_again;  /* it was stopped, and must be started again */
};

#define REVIEW_LOCK_NONE ((struct review_lock){ .dir_fd = -1, .dir_lock_fd = -1, .fd = -1 })

/* Locks the sandbox, reads its row, and finishes interrupted operations. `statuses` are bits; any other status is
 * INVALID_STATE, "cannot be VERBED". SANDBOX_SYNCS: its changes go to its codebase without a review. */
int review_lock_begin(struct service *service, const struct caller *caller, const char *id, int64_t version, unsigned statuses,
                      const char *verbed, struct review_lock *ret, struct err *err);

/* The codebase for review/; NULL: the base is a directory. */
const struct apply_txn_codebase *review_lock_lands_in(const struct review_lock *review_lock);

/* Called after an approval or an undo made a version: updates the codebase's row in the store, and shows the version to the
 * sandboxes over it. */
void review_lock_tell_version(struct review_lock *review_lock);

/*
 * Keeps the delta from changing: a fence closes its gate, other drivers freeze the processes. If that is impossible, the
 * sandbox is stopped, and started again by review_lock_done(), provided `may_stop`; otherwise WOULD_STOP.
 */
int review_lock_hold(struct review_lock *review_lock, struct err *err);

/* The same before review_lock_release() with paths to drop. The kernel's overlayfs does not support that while it is
 * mounted, so that driver has to be stopped. */
int review_lock_hold_to_drop(struct review_lock *review_lock, struct err *err);

/* Quiesces the sandbox if that needs no stop. Then ask review_lock_is_calm(). */
int review_lock_try(struct review_lock *review_lock, struct err *err);
bool review_lock_is_calm(const struct review_lock *review_lock);

/* Tells whether the lock of the delta is held as long as the sandbox runs. For `is_held` of review/. */
bool review_lock_is_locked(const struct review_lock *review_lock);

/* Tells whether applied paths can leave the delta now. */
bool review_lock_can_drop(const struct review_lock *review_lock);

/* Drops these paths from the delta and resumes the sandbox. Without paths it cannot fail. */
int review_lock_release(struct review_lock *review_lock, const struct fence_revert *drops, size_t count, struct err *err);

/* Called after an approval. Whole files, in `drops`, leave the delta if they can; files with applied hunks get new merge
 * bases. */
int review_lock_release_taken(struct review_lock *review_lock, const struct approve *approve, struct err *err);

/* For a quiesced copy: makes the agent's files at these paths its base, and resumes it. */
int review_lock_stand(struct review_lock *review_lock, const struct fence_revert *drops, size_t count, struct err *err);
bool review_lock_is_copy(const struct review_lock *review_lock);

/* Opens the project's root, which contains the scope. BASE_REPLACED: another directory has its name now. */
int review_lock_open_root(const struct review_lock *review_lock, struct err *err);

/* Ends its processes and its mount; an active sandbox becomes stopped. */
int review_lock_halt(struct review_lock *review_lock, struct err *err);

/* Resumes the sandbox and unlocks it. */
void review_lock_done(struct review_lock *review_lock);

/* Makes a closed sandbox a stopped one. -EBUSY: others have reserved its paths; `ret_conflicts`, if not NULL, lists them. */
int review_reopen(struct review_lock *review_lock, struct sandbox_conflicts *ret_conflicts, struct err *err);

/* reviews_reject() with more details for the event, which it takes over. */
int review_reject(struct service *service, const struct caller *caller, const char *id, const char *actor, json_t *details,
                  int64_t version, struct sandbox_row *ret, struct err *err);

/* The scope from the project's root; and the project path of a path in the scope. Free them. */
char *review_prefix(const struct sandbox_row *row);
char *review_lock_project_path(const char *prefix, const char *scope_path);

/* Finds a changed file by its id, or by its path from either root. ERR_NOT_FOUND (FILE_UNKNOWN), also for a directory. */
int review_find_change(struct change_set *set, const char *sandbox_id, const char *path, const char *file_id,
                       struct file_change **ret, struct err *err);

/* ---- the record of shown changes (review_diff.c) ---- */

struct shown_file {
    char *path; /* owned; from the sandbox's root */
    char hash[CHANGE_HASH_TEXT_MAX];
    char drift[CHANGE_HASH_TEXT_MAX]; /* of the project then; "": as the agent found it */
};

struct shown_list {
    struct shown_file *items; /* owned; by path */
    size_t count, cap;
};

int shown_load(int dir_fd, struct shown_list *ret, struct err *err);
/* NULL: it was not shown. */
struct shown_file *shown_find(const struct shown_list *seen, const char *path);
/* Appends; call shown_sort() before the next shown_find(). */
void shown_add(struct shown_list *seen, const char *path, const struct shown_file *as);
void shown_sort(struct shown_list *seen);
int shown_save(int dir_fd, const struct shown_list *seen, struct err *err);
void shown_list_done(struct shown_list *seen);

/* The hash of a change as it is shown and compared: that of a rename covers both paths. "": it could not be read. */
void shown_hash(const struct file_change *change, char out[CHANGE_HASH_TEXT_MAX]);
/* The hash and the drift, without a path. */
struct shown_file shown_as(const struct file_change *change);

/* Parses them from a diff's text for a file: the hash, and after a '-' the drift. */
bool shown_parse(const char *text, struct shown_file *ret);

/* ---- chosen changes (review_choice.c) ---- */

enum choosing { CHOOSING_NOT, CHOOSING_WHOLE, CHOOSING_HUNKS };

struct chosen {
    enum choosing *items; /* owned; one for each of the set */
    const struct review_hunks **hunks;
    bool is_all;
    size_t count;                 /* of all chosen ones; set by chosen_select(), like the next fields */
    struct selection selection;   /* no files: all */
    struct selection_file *files; /* owned */
};

/* Resolves the names in the choice. FILE_UNKNOWN, unless `unknown` is given to collect the names. */
int chosen_make(const struct review_choice *choice, struct change_set *set, const char *sandbox_id,
                struct review_discarded *unknown, struct chosen *ret, struct err *err);
/* Converts the choice to a selection of review/, with the directories that belong to the files. */
void chosen_select(struct chosen *chosen, const struct change_set *set);
void chosen_done(struct chosen *chosen);

/* Reads the acceptance rules from the row's behaviour. */
void review_acceptance(const struct sandbox_row *row, struct acceptance *ret);

/* ---- one approval (review_choice.c, review_approve.c) ---- */

/* The decision in the request, converted for review/. */
struct approval_decision {
    struct decision given;
    struct acceptance anything;   /* for overriding the acceptance rules */
    const char **acknowledged;    /* owned array of borrowed words */
    struct shown_list seen;       /* what was shown, unless the request has hashes */
    struct shown_file *shown;     /* owned: the expectations borrow from it; one for each of the set */
    struct expectation *expected; /* owned */
    struct expectation_list list;
    bool is_other_diff; /* the changes do not match the request's diffHash */
};

void approval_decision_done(struct approval_decision *decision);

/* The state of one approval. */
struct approval_run {
    struct service *service;
    const struct caller *caller;
    const struct review_approval *request;
    struct review_lock *review_lock;
    struct review_approved *out;
    struct chosen chosen;
    struct approval_decision decision;
    bool ends;              /* no changes remain, so the sandbox ends */
    bool is_unsaid;         /* it is applied, but that could not be recorded */
    struct hook_list hooks; /* the hooks to run; empty: none */
    struct hook_box box;
    bool was_tried; /* the hooks ran on the digest `tried` */
    uint8_t tried[FILE_STATE_HASH_BYTES];
};

/* Reads the changes with their hashes, the choice, and the decision. */
int approval_run_look(struct approval_run *a, struct err *err);

/* ---- hooks (review_hooks.c) ---- */

/* Collects the hooks, and makes a sandbox for them. NO_VERIFY_REFUSED, HOOKS_UNREADABLE. */
int approval_run_take_hooks(struct approval_run *a, struct err *err);
/* Unlocks the sandbox, whose row goes to `row`, and runs the hooks on the staged tree. HOOK_FAILED. */
int approval_run_run_hooks(struct approval_run *a, struct sandbox_row *row, struct err *err);
/* Names and results, for the audit. */
json_t *review_hooks_brief(const struct hook_results *results);

/* ---- the follow-up of an approval or undo (review_record.c) ---- */

struct review_follow_up {
    const char *actor; /* the claimed name, or what decided; "" */
    bool is_automatic;
    bool ends; /* the sandbox is approved afterwards */
};

/* Writes the text for the record of the transaction. `approved` is the result of a dry run; NULL: it is an undo. */
void review_follow_up_write(const struct review_lock *review_lock, const struct review_follow_up *what,
                            const struct review_approved *approved, struct buf *out);

/* Called after the transaction: adds the rows of provenance, sets the status, and closes the record. `ret_ids`, if not
 * NULL, gets the ids of the rows, NULL-terminated; free all. */
int review_record_finish(struct review_lock *review_lock, const char *approval_id, char ***ret_ids, struct err *err);
/* Adds only the rows. The record stays open, and the next operation on the sandbox does the rest. */
int review_record_note(struct review_lock *review_lock, const char *approval_id, char ***ret_ids, struct err *err);
/* Sets the sandbox to stopped and approved. */
int review_end(struct review_lock *review_lock, struct err *err);
/* Called if the follow-up failed: tries it again soon, unless the error `why` is permanent. */
void review_record_left(const struct review_lock *review_lock, const struct err *why);
/* Completes what a killed server left unfinished. The lock is held. */
void review_record_recover(struct review_lock *review_lock);
/* Called at start. */
void reviews_recover(struct service *service);
