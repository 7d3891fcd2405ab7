/*
 * Lists applied changes that are not committed yet, and commits them.
 *
 * Each approval adds a row for every file (store/applied_change_row.h). A file is pending until one of our commits includes
 * it, or until HEAD has its content: then somebody else has committed it (WORKSPACE_COMMIT_EXTERNAL).
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

/* Rows that the caller may see, the newest first. The caller sets the filter's account. */
int reviews_applied(struct service *service, const struct caller *caller, const struct applied_change_filter *filter,
                    size_t limit, size_t offset, struct applied_change_rows *ret, int64_t *ret_total, struct err *err);

struct review_commit_request {
    const char *project_root; /* "": that of the first sandbox, else the server's, else the only one with pending changes */
    const char *const *sandbox_ids; /* none: all */
    size_t sandbox_id_count;
    const char *const *file_paths; /* absolute, or from the project's root; none: all */
    size_t file_path_count;
    const char *message, *actor; /* "": a generated message; the caller's name */
};

/* The plan of a commit. A file that was applied several times is committed once, with all its changes. */
struct review_commit_plan {
    char *project_root;              /* owned */
    const char *const *roots;        /* borrowed from the caller */
    struct applied_change_rows rows; /* the requested ones, the newest first */
    size_t *latest;                  /* owned; for each row the index of the newest row of its path */
    struct commit_view *views;       /* owned; one for each row, filled for the newest of a path */
    size_t dirty_count, clean_count; /* files that differ from HEAD, and files that do not */
    size_t blocked_count;            /* files with other changes that cannot be separated */
    struct buf message;              /* suggested */
};

int reviews_commit_plan(struct service *service, const struct caller *caller, const struct review_commit_request *request,
                        struct review_commit_plan *ret, struct err *err);
void review_commit_plan_done(struct review_commit_plan *plan);

/* Commits the files that differ from HEAD, and marks the others as committed. `ret_hash` is "" if there was nothing to
 * commit. FOREIGN_CHANGES: nothing was done, and the views in `plan`, which is filled in any case, show the files
 * concerned. */
int reviews_commit(struct service *service, const struct caller *caller, const struct review_commit_request *request,
                   struct review_commit_plan *plan, char ret_hash[65], size_t *ret_count, struct err *err);

/* ---- internal ---- */

/* Commits what was just applied, together with earlier pending changes of the same files; fills commit_hash or
 * commit_error. */
void review_commit_approved(struct review_lock *review_lock, const struct review_approval *request,
                            struct review_approved *approved, const char *const *row_ids);

/* ---- contributions kept for a commit (review_contribution.c) ---- */

int review_contributions_open(struct service *service, int *ret_fd, struct err *err);
/* Called after an approval was applied. `paths` are those in the sandbox, one for each row. */
void review_contributions_keep(struct review_lock *review_lock, const char *approval_id, const struct applied_change_row *rows,
                               const char *const *scope_paths, size_t count);
void review_contributions_forget(struct service *service, const char *const *ids, size_t count);
/* Removes contributions that were not committed for a month. */
void review_contributions_sweep(struct service *service);
