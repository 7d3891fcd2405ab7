/*
 * What was applied and is not committed yet, and committing it.
 *
 * Each approval leaves a row for every file (store/applied_change_row.h). A file is pending until a commit of ours takes it up, or
 * until it is found to be in HEAD as it is: then somebody else has committed it (WORKSPACE_COMMIT_EXTERNAL).
 */
#pragma once

#include "review/commit.h"
#include "service/sandbox_care.h"
#include "store/applied_change_row.h"

struct review_lock;
struct review_approval;
struct review_approved;

#define WORKSPACE_COMMIT_EXTERNAL "EXTERNAL"
#define WORKSPACE_PENDING_MAX 100000

/* Rows that the caller sees; the newest first. The filter's account is the caller's matter. */
int reviews_applied(struct service *service, const struct caller *caller, const struct applied_change_filter *filter,
                    size_t limit, size_t offset, struct applied_change_rows *ret, int64_t *ret_total, struct err *err);

struct review_commit_request {
    const char *project_root;       /* "": that of the first sandbox, the server's, or the only one with pending changes */
    const char *const *sandbox_ids; /* none: of all */
    size_t sandbox_id_count;
    const char *const *file_paths; /* absolute, or from the project's root; none: all */
    size_t file_path_count;
    const char *message, *actor; /* "": made up, the caller */
};

/* What would be committed. A file that was applied several times is committed once, with all of it. */
struct review_commit_plan {
    char *project_root;              /* owned */
    const char *const *roots;        /* borrowed: the caller's */
    struct applied_change_rows rows; /* those asked for, the newest first */
    size_t *latest;                  /* owned; which is the newest row of its path */
    struct commit_view *views;       /* owned; of the newest of each path */
    size_t dirty_count, clean_count; /* files that differ from HEAD, and that it has */
    size_t blocked_count;            /* files that cannot be told from what others have in them */
    struct buf message;              /* suggested */
};

int reviews_commit_plan(struct service *service, const struct caller *caller, const struct review_commit_request *request,
                        struct review_commit_plan *ret, struct err *err);
void review_commit_plan_done(struct review_commit_plan *plan);

/* Commits what differs from HEAD, and notes what does not. `ret_hash` is "" when there was nothing to commit. FOREIGN_CHANGES: nothing was
 * done, and the views of `plan`, which is filled also then, say of which files. */
int reviews_commit(struct service *service, const struct caller *caller, const struct review_commit_request *request,
                   struct review_commit_plan *plan, char ret_hash[65], size_t *ret_count, struct err *err);

/* ---- inside the module ---- */

/* Of what was just applied, with what was applied to the same files before and is pending; fills commit_hash or commit_error. */
void review_commit_approved(struct review_lock *review_lock, const struct review_approval *request,
                            struct review_approved *approved, const char *const *row_ids);

/* ---- what is kept for a commit (review_contribution.c) ---- */

int review_contributions_open(struct service *service, int *ret_fd, struct err *err);
/* Of an approval that has landed: a path of the sandbox for each row. */
void review_contributions_keep(struct review_lock *review_lock, const char *approval_id, const struct applied_change_row *rows,
                               const char *const *scope_paths, size_t count);
void review_contributions_forget(struct service *service, const char *const *ids, size_t count);
/* What nobody has committed for a month. */
void review_contributions_sweep(struct service *service);
