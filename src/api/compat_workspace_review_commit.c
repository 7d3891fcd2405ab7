/* Applied changes: pending ones, provenance, commits. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace.h"
#include "base/mem.h"
#include "service/applied_list.h"
#include "service/review_commit.h"

#define PENDING_DEFAULT 100
#define PROVENANCE_DEFAULT 50
#define NAMES_MAX 100000

static const char *query_or_empty(const struct ws *ws, const char *name)
{
    const char *value = web_query(ws->web, name);

    return value ? value : "";
}

/* ---- pending ---- */

int compat_pending(struct ws *ws, struct err *err)
{
    autodone(applied_change_rows) struct applied_change_rows rows = { 0 };
    autofree char *root = NULL;
    struct applied_change_filter filter = { .only_pending = true };
    int64_t limit = PENDING_DEFAULT, offset = 0, total = 0;
    int r = sandboxes_find_root(&ws->caller, query_or_empty(ws, "projectRoot"), &root, err);

    if (r < 0)
        return r;
    filter.project_root = *root ? root : NULL;
    r = compat_read_query(ws, err, { "limit", .number = &limit, .least = 1, .most = 10000 },
                          { "offset", .number = &offset, .least = 0, .most = INT32_MAX });
    if (r == 0)
        r = reviews_applied(ws->service, &ws->caller, &filter, WORKSPACE_PENDING_MAX, 0, &rows, &total, err);
    if (r < 0)
        return r;
    autofree struct applied_group *groups = xalloc((rows.count + 1) * sizeof(*groups));
    size_t count = applied_group_rows(&rows, groups);
    json_t *list = json_array();
    for (size_t i = (size_t) offset; i < count && i < (size_t) (offset + limit); i++) {
        json_t *one = json_pack("{s:o, s:s, s:I, s:I, s:s}", "sandboxId", compat_uuid(groups[i].newest->sandbox_id),
                                "sandboxOwner", groups[i].newest->creator, "fileCount", (json_int_t) groups[i].files,
                                "changeCount", (json_int_t) groups[i].changes, "projectRoot", groups[i].newest->project_root);
        compat_set_time(one, "latestApplied", groups[i].newest->applied_ns);
        json_array_append_new(list, one);
    }
    return compat_answer(ws, 200,
                         json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "summaries", list, "totalFiles",
                                   (json_int_t) applied_count_files(&rows), "totalChanges", (json_int_t) total, "total",
                                   (json_int_t) count, "limit", (json_int_t) limit, "offset", (json_int_t) offset));
}

/* ---- provenance ---- */

static json_t *make_applied_change(const struct applied_change_row *row)
{
    json_t *one = json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:s, s:s, s:I}", "id", row->id, "sandboxId",
                            compat_uuid(row->sandbox_id), "sandboxOwner", row->creator, "sandboxOwnerType", row->creator_type,
                            "filePath", row->file_path, "relativePath", row->relative_path, "projectRoot", row->project_root,
                            "changeType", row->change_type, "fileSize", (json_int_t) row->size_bytes);

    compat_set_text(one, "approvalId", row->approval_id);
    compat_set_text(one, "approvedBy", row->actor);
    compat_set_text(one, "contentHash", row->content_hash);
    compat_set_time(one, "appliedAt", row->applied_ns);
    compat_set_time(one, "undoneAt", row->undone_ns);
    compat_set_time(one, "committedAt", row->committed_ns);
    compat_set_text(one, "commitHash", row->commit_hash);
    compat_set_text(one, "commitMessage", row->commit_message);
    return one;
}

int compat_provenance(struct ws *ws, struct err *err)
{
    autodone(applied_change_rows) struct applied_change_rows rows = { 0 };
    autofree char *path = NULL, *root = NULL;
    struct applied_change_filter filter = { 0 };
    int64_t limit = PROVENANCE_DEFAULT, offset = 0, total = 0;
    int r = applied_find_path(ws->service, &ws->caller, query_or_empty(ws, "path"), query_or_empty(ws, "projectRoot"), &path,
                              &root, err);

    if (r == 0)
        r = compat_read_query(ws, err, { "limit", .number = &limit, .least = 1, .most = 10000 },
                              { "offset", .number = &offset, .least = 0, .most = INT32_MAX });
    filter.file_path = path;
    filter.project_root = root;
    if (r == 0)
        r = reviews_applied(ws->service, &ws->caller, &filter, (size_t) limit, (size_t) offset, &rows, &total, err);
    if (r < 0)
        return r;
    json_t *list = json_array();
    for (size_t i = 0; i < rows.count; i++)
        json_array_append_new(list, make_applied_change(&rows.rows[i]));
    return compat_answer(ws, 200, json_pack("{s:s, s:o, s:I}", "filePath", path, "changes", list, "total", (json_int_t) total));
}

/* ---- commits ---- */

struct commit_wanted {
    struct review_commit_request request;
    const char **sandbox_ids, **paths; /* owned arrays */
    char (*ids)[SANDBOX_ID_MAX];       /* owned: ids in our spelling */
};

static void commit_wanted_done(struct commit_wanted *wanted)
{
    free(wanted->sandbox_ids);
    free(wanted->paths);
    free(wanted->ids);
}

static int commit_read_request(struct ws *ws, struct commit_wanted *ret, struct err *err)
{
    struct review_commit_request *request = &ret->request;
    int r;

    request->project_root = query_or_empty(ws, "projectRoot");
    request->message = request->actor = "";
    r = compat_read(ws->body, err, { "projectRoot", .text = &request->project_root },
                    { "commitMsg", .text = &request->message, .text_max = (size_t) 64 << 10 },
                    { "commitMessage", .text = &request->message, .text_max = (size_t) 64 << 10 },
                    { "actor", .text = &request->actor });
    if (r == 0)
        r = compat_get_texts(ws->body, "sandboxIds", NAMES_MAX, &ret->sandbox_ids, &request->sandbox_id_count, err);
    if (r == 0)
        r = compat_get_texts(ws->body, json_object_get(ws->body, "filePaths") ? "filePaths" : "files", NAMES_MAX, &ret->paths,
                             &request->file_path_count, err);
    ret->ids = xalloc((request->sandbox_id_count + 1) * sizeof(*ret->ids));
    for (size_t i = 0; r == 0 && i < request->sandbox_id_count; i++) {
        if (sandbox_id_parse(ret->sandbox_ids[i], ret->ids[i]) < 0)
            r = err_reject(err, -EINVAL, ret->sandbox_ids[i], "is no id of a sandbox");
        else
            ret->sandbox_ids[i] = ret->ids[i];
    }
    request->sandbox_ids = ret->sandbox_ids;
    request->file_paths = ret->paths;
    return r;
}

static json_t *make_commit_file(const struct applied_change_row *row, const struct commit_view *view)
{
    static const char *const names[] = {
        [COMMIT_IN_HEAD] = "already_committed", [COMMIT_DIFFERS] = "pending", [COMMIT_BLOCKED] = "blocked"
    };
    json_t *one = json_pack("{s:s, s:s, s:s, s:o, s:s, s:s}", "filePath", row->file_path, "relativePath", row->relative_path,
                            "changeType", row->change_type, "sandboxId", compat_uuid(row->sandbox_id), "sandboxOwner",
                            row->creator, "status", names[view->status]);

    if (view->status == COMMIT_BLOCKED)
        compat_set_text(one, "reason", view->reason);
    compat_set_time(one, "appliedAt", row->applied_ns);
    return one;
}

static json_t *make_commit_files(const struct review_commit_plan *plan, bool only_blocked)
{
    json_t *files = json_array();

    for (size_t i = 0; plan->views && i < plan->rows.count; i++)
        if (plan->latest[i] == i && (!only_blocked || plan->views[i].status == COMMIT_BLOCKED))
            json_array_append_new(files, make_commit_file(&plan->rows.rows[i], &plan->views[i]));
    return files;
}

static json_t *make_commit_groups(const struct review_commit_plan *plan)
{
    autofree struct applied_group *groups = xalloc((plan->rows.count + 1) * sizeof(*groups));
    size_t count = applied_group_rows(&plan->rows, groups);
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:o, s:s, s:I, s:I, s:I, s:I}", "sandboxId",
                                              compat_uuid(groups[i].newest->sandbox_id), "sandboxOwner",
                                              groups[i].newest->creator, "fileCount", (json_int_t) groups[i].files, "added",
                                              (json_int_t) groups[i].added, "modified", (json_int_t) groups[i].modified,
                                              "deleted", (json_int_t) groups[i].deleted));
    return list;
}

static int commit_explain(struct ws *ws, int r, const struct review_commit_plan *plan, const struct err *err)
{
    if (err->reason && strcmp(err->reason, "FOREIGN_CHANGES") == 0) {
        compat_hint(ws, "do as each of details.files says, or commit the others by filePaths");
        compat_detail(ws, "reason", json_string(err->reason));
        compat_detail(ws, "files", make_commit_files(plan, true));
    } else if (err->code == ERR_FAILED_PRECONDITION || err->code == ERR_NOT_FOUND) {
        compat_hint(ws, "the project must be in a git repository that is not in the middle of something");
    }
    return r;
}

int compat_commit_preview(struct ws *ws, struct err *err)
{
    autodone(commit_wanted) struct commit_wanted wanted = { 0 };
    autodone(review_commit_plan) struct review_commit_plan plan = { 0 };
    int r = commit_read_request(ws, &wanted, err);

    if (r == 0)
        r = reviews_commit_plan(ws->service, &ws->caller, &wanted.request, &plan, err);
    if (r < 0)
        return commit_explain(ws, r, &plan, err);
    return compat_answer(ws, 200,
                         json_pack("{s:o, s:I, s:I, s:I, s:s, s:o, s:s}", "files", make_commit_files(&plan, false),
                                   "committableFiles", (json_int_t) plan.dirty_count, "alreadyCommittedFiles",
                                   (json_int_t) plan.clean_count, "blockedFiles", (json_int_t) plan.blocked_count,
                                   "suggestedMessage", plan.message.data ? plan.message.data : "", "groupedBySandbox",
                                   make_commit_groups(&plan), "projectRoot", plan.project_root));
}

int compat_commit_pending(struct ws *ws, struct err *err)
{
    autodone(commit_wanted) struct commit_wanted wanted = { 0 };
    autodone(review_commit_plan) struct review_commit_plan plan = { 0 };
    char hash[65] = "";
    size_t count = 0;
    int r = commit_read_request(ws, &wanted, err);

    if (r == 0)
        r = reviews_commit(ws->service, &ws->caller, &wanted.request, &plan, hash, &count, err);
    if (r < 0)
        return commit_explain(ws, r, &plan, err);
    json_t *body = json_pack("{s:b, s:I}", "success", 1, "filesCommitted", (json_int_t) count);
    compat_set_text(body, "commitHash", hash);
    return compat_answer(ws, 200, body);
}
