/* Inside the module: what the files of the review share. */
#pragma once

#include "service/hook_box.h"
#include "service/life.h"
#include "service/reviews.h"
#include "service/sandbox_tend.h"

/* What was decided, in the store before it is acknowledged: who asks later why a file is as it is must find it. */
void review_tell(struct service *service, const struct caller *caller, const struct sandbox_row *row, const char *type,
                 const char *claimed, json_t *details);

/* ---- a workspace that keeps still (review_lock.c) ---- */

struct review_lock {
    struct service *service;
    const struct caller *caller;
    struct sandbox_conn *conn; /* owned, its `life` locked */
    struct sandbox_row row;
    char *delta_path, *prefix; /* owned; the scope from the project's root: "services/api", or "" */
    int dir_fd;                /* owned: the workspace's directory */
    int dir_lock_fd;           /* owned: of one that does not run, so that nobody starts or changes it; -1: it runs */
    int fd;                    /* owned: the connection that holds; -1: nothing runs */
    char *payload;             /* owned */
    struct codebase *codebase; /* owned; whose files are the base; NULL: it is a directory */
    struct apply_txn_codebase lands;
    char *message, *by; /* owned: of `lands` */
    bool may_stop;      /* it may be stopped, and started again, where it cannot be held */
    bool starts_again;  /* that happened */
};

#define REVIEW_LOCK_NONE ((struct review_lock){ .dir_fd = -1, .dir_lock_fd = -1, .fd = -1 })

/* Takes its lock and reads its row, finishes what was cut short. `statuses` are bits; another is INVALID_STATE, "cannot be VERBED".
 * SANDBOX_SYNCS: its changes go to its codebase without a review. */
int review_lock_begin(struct service *service, const struct caller *caller, const char *id, int64_t version, unsigned statuses,
                      const char *verbed, struct review_lock *ret, struct err *err);

/* For review/; NULL: in the directory that is its base. */
const struct apply_txn_codebase *review_lock_lands_in(const struct review_lock *review_lock);

/* A version was made of what was approved or undone: its row in the store says so, and the sandboxes over it see it. */
void review_lock_tell_version(struct review_lock *review_lock);

/*
 * Nothing changes the delta from here on: a fence is held at its gate, of other drivers the processes are frozen. Where that cannot be, it
 * is stopped, and started again by review_lock_done(); but only if it may be: WOULD_STOP otherwise.
 */
int review_lock_hold(struct review_lock *review_lock, struct err *err);

/* The same for who will take paths out of the delta by review_lock_release(). The kernel's overlayfs does not expect that while it is mounted: it has to be
 * stopped for it. */
int review_lock_hold_to_drop(struct review_lock *review_lock, struct err *err);

/* Holds it if it can be, without stopping it. Then review_lock_is_calm(). */
int review_lock_try(struct review_lock *review_lock, struct err *err);
bool review_lock_is_calm(const struct review_lock *review_lock);

/* Whether somebody has the delta's lock as long as it runs. For `is_held` of review/. */
bool review_lock_is_locked(const struct review_lock *review_lock);

/* Whether what was taken can leave the delta now. */
bool review_lock_can_drop(const struct review_lock *review_lock);

/* These leave the delta, and everything goes on. Without any it cannot fail. */
int review_lock_release(struct review_lock *review_lock, const struct fence_revert *drops, size_t count, struct err *err);

/* What was taken: of whole files `drops`, which leave the delta if they can, and hunks of files, which then stand on new grounds. */
int review_lock_release_taken(struct review_lock *review_lock, const struct approve *approve, struct err *err);

/* Of a copy that is held: what the agent has at these paths is what it is compared with. Everything goes on. */
int review_lock_stand(struct review_lock *review_lock, const struct fence_revert *drops, size_t count, struct err *err);
bool review_lock_is_copy(const struct review_lock *review_lock);

/* Opens the project's root, which the scope lies in: refused, BASE_REPLACED, where another directory has its name by now. */
int review_lock_open_root(const struct review_lock *review_lock, struct err *err);

/* Ends its processes and its mount; it is stopped then, if it was active. */
int review_lock_halt(struct review_lock *review_lock, struct err *err);

/* Releases, and lets go. */
void review_lock_done(struct review_lock *review_lock);

/* One that was closed is stopped from now on. -EBUSY: others have what it had reserved; they are in `ret_conflicts`, if not NULL. */
int review_reopen(struct review_lock *review_lock, struct sandbox_conflicts *ret_conflicts, struct err *err);

/* reviews_reject(), with what else is to be told of it: taken. */
int review_reject(struct service *service, const struct caller *caller, const char *id, const char *actor, json_t *details,
                  int64_t version, struct sandbox_row *ret, struct err *err);

/* The scope from the project's root; and a path in it likewise. Free them. */
char *review_prefix(const struct sandbox_row *row);
char *review_lock_project_path(const char *prefix, const char *scope_path);

/* Finds the changed file that is called by its id, or by its path from either root. ERR_NOT_FOUND (FILE_UNKNOWN), also for a directory. */
int review_find_change(struct change_set *set, const char *sandbox_id, const char *path, const char *file_id,
                       struct file_change **ret, struct err *err);

/* ---- what was shown (review_diff.c) ---- */

struct shown_file {
    char *path; /* owned; from the sandbox's root */
    char hash[CHANGE_HASH_TEXT_MAX];
    char drift[CHANGE_HASH_TEXT_MAX]; /* to the project then; "": where the agent found it */
};

struct shown_list {
    struct shown_file *items; /* owned; by path */
    size_t count, cap;
};

int shown_load(int dir_fd, struct shown_list *ret, struct err *err);
/* NULL: it was not shown. */
struct shown_file *shown_find(const struct shown_list *seen, const char *path);
/* At the end: shown_sort() before the next shown_find(). */
void shown_add(struct shown_list *seen, const char *path, const struct shown_file *as);
void shown_sort(struct shown_list *seen);
int shown_save(int dir_fd, const struct shown_list *seen, struct err *err);
void shown_list_done(struct shown_list *seen);

/* The hash of a change as it is shown and compared: a rename is both its paths. "": it could not be read. */
void shown_hash(const struct file_change *change, char out[CHANGE_HASH_TEXT_MAX]);
/* That and how it stands; without a path. */
struct shown_file shown_as(const struct file_change *change);

/* The same from text, as a diff has it for each file: the hash, and behind a '-' where the project stood. */
bool shown_parse(const char *text, struct shown_file *ret);

/* ---- what is chosen (review_choice.c) ---- */

enum choosing { CHOOSING_NOT, CHOOSING_WHOLE, CHOOSING_HUNKS };

struct chosen {
    enum choosing *items; /* owned; one for each of the set */
    const struct review_hunks **hunks;
    bool is_all;
    size_t count;                 /* how many of them are chosen, at all; this and what follows by chosen_select() */
    struct selection selection;   /* no files: all */
    struct selection_file *files; /* owned */
};

/* Finds what is named. FILE_UNKNOWN, unless `unknown` takes the names. */
int chosen_make(const struct review_choice *choice, struct change_set *set, const char *sandbox_id,
                struct review_discarded *unknown, struct chosen *ret, struct err *err);
/* What review/ takes, with the directories that go with the files. */
void chosen_select(struct chosen *chosen, const struct change_set *set);
void chosen_done(struct chosen *chosen);

/* Of the row's behaviour. */
void review_acceptance(const struct sandbox_row *row, struct acceptance *ret);

/* ---- one approval (review_choice.c, review_approve.c) ---- */

/* What the request says, as review/ takes it. */
struct approval_decision {
    struct decision given;
    struct acceptance anything;   /* for who overrides the acceptance */
    const char **acknowledged;    /* owned array of borrowed words */
    struct shown_list seen;       /* what was shown, if the request does not say it */
    struct shown_file *shown;     /* owned: what the expectations borrow from; one for each of the set */
    struct expectation *expected; /* owned */
    struct expectation_list list;
    bool is_other_diff; /* the changes are not those of the request's diffHash */
};

void approval_decision_done(struct approval_decision *decision);

/* All that one approval goes through. */
struct approval_run {
    struct service *service;
    const struct caller *caller;
    const struct review_approval *request;
    struct review_lock *review_lock;
    struct review_approved *out;
    struct chosen chosen;
    struct approval_decision decision;
    bool ends;              /* nothing is left afterwards */
    bool is_unsaid;         /* it has landed, and that could not be noted */
    struct hook_list hooks; /* that are to be run; none: it lands as it is */
    struct hook_box box;
    bool was_tried; /* by them, as: */
    uint8_t tried[FILE_STATE_HASH_BYTES];
};

/* Reads the changes with their hashes, what is meant of them, and the decision about it. */
int approval_run_look(struct approval_run *a, struct err *err);

/* ---- hooks (review_hooks.c) ---- */

/* Which there are, and a sandbox for them. NO_VERIFY_REFUSED, HOOKS_UNREADABLE. */
int approval_run_take_hooks(struct approval_run *a, struct err *err);
/* Lets go of the workspace, whose row goes to `row`, and runs them on what was rehearsed. HOOK_FAILED. */
int approval_run_run_hooks(struct approval_run *a, struct sandbox_row *row, struct err *err);
/* Names and results, for the audit. */
json_t *review_hooks_brief(const struct hook_results *results);

/* ---- what a landing owes (review_record.c) ---- */

struct review_follow_up {
    const char *actor; /* who they say that they are, or what decided; "" */
    bool is_automatic;
    bool ends; /* the workspace is approved afterwards */
};

/* The text that goes into the record of the landing. `approved` says what will be written, by a dry run; NULL: it is an undo. */
void review_follow_up_write(const struct review_lock *review_lock, const struct review_follow_up *what,
                            const struct review_approved *approved, struct buf *out);

/* It has landed: rows of provenance, the status, and the record is closed. `ret_ids`, if not NULL, are those of the rows, ended by NULL; free
 * all. */
int review_record_finish(struct review_lock *review_lock, const char *approval_id, char ***ret_ids, struct err *err);
/* Only the rows: the rest is left to whoever takes the workspace next, and so the record stays open. */
int review_record_note(struct review_lock *review_lock, const char *approval_id, char ***ret_ids, struct err *err);
/* It is stopped and approved from now on. */
int review_end(struct review_lock *review_lock, struct err *err);
/* What was to be finished could not be: it is tried again soon, unless `why` is for good. */
void review_record_left(const struct review_lock *review_lock, const struct err *why);
/* Finishes what a killed server left; with the lock. */
void review_record_recover(struct review_lock *review_lock);
/* At the start. */
void reviews_recover(struct service *service);
