/*
 * What was applied and is not committed yet, and committing it.
 *
 * Each approval leaves a row for every file (store/applied_change_row.h). A file is pending until a commit of ours takes it up, or
 * until it is found to be in HEAD as it is: then somebody else has committed it (WORKSPACE_COMMIT_EXTERNAL).
 */
#pragma once

#include "service/workspaces.h"
#include "store/applied_change_row.h"

struct still;
struct workspace_approval;
struct workspace_approved;

#define WORKSPACE_COMMIT_EXTERNAL "EXTERNAL"
#define WORKSPACE_PENDING_MAX 100000

/* Rows that the caller sees; the newest first. The filter's account is the caller's matter. */
int workspaces_applied(struct service *service, const struct caller *caller, const struct applied_change_filter *filter,
                       size_t limit, size_t offset, struct applied_change_rows *ret, int64_t *ret_total, struct err *err);

struct workspace_commit_request {
    const char *project_root;       /* "": the server's, or the only one that something is pending for */
    const char *const *sandbox_ids; /* none: of all */
    size_t sandbox_id_count;
    const char *const *file_paths; /* absolute, or from the project's root; none: all */
    size_t file_path_count;
    const char *message, *actor; /* "": made up, the caller */
};

/* What would be committed. A file that was applied several times is there once, as the newest row has it. */
struct workspace_commit_plan {
    char *project_root;              /* owned */
    struct applied_change_rows rows; /* those asked for, the newest first */
    bool *is_latest;                 /* owned; the newest row of its path */
    bool *is_dirty;                  /* owned; of the latest: it differs from HEAD */
    size_t dirty_count, clean_count; /* of the latest */
    struct buf message;              /* suggested */
};

int workspaces_commit_plan(struct service *service, const struct caller *caller, const struct workspace_commit_request *request,
                           struct workspace_commit_plan *ret, struct err *err);
void workspace_commit_plan_done(struct workspace_commit_plan *plan);

/* Commits what differs from HEAD, and notes what does not. `ret_hash` is "" when there was nothing to commit. */
int workspaces_commit(struct service *service, const struct caller *caller, const struct workspace_commit_request *request,
                      char ret_hash[65], size_t *ret_count, struct err *err);

/* ---- inside the room ---- */

/* Before anything is applied: whether it could be committed. NO_REPOSITORY. */
int workspace_commit_check(const struct workspace_row *row, const char *prefix, const struct workspace_approved *approved,
                           struct err *err);
/* Of what was just applied; fills commit_hash or commit_error. */
void workspace_commit_approved(struct still *still, const struct workspace_approval *request,
                               struct workspace_approved *approved, const char *const *row_ids);
