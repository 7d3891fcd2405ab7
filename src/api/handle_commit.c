/* Applied changes: pending ones, provenance, commits. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/review_message.h"
#include "base/mem.h"
#include "service/applied_list.h"
#include "service/review_commit.h"

#define NAMES_MAX 100000
#define COMMIT_MESSAGE_BYTES_MAX ((size_t) 64 << 10)

static Sandbox__V1__AppliedGroup *make_group(const struct applied_group *group)
{
    Sandbox__V1__AppliedGroup *out = message_new(&sandbox__v1__applied_group__descriptor);

    out->sandbox_id = make_string(group->newest->sandbox_id);
    out->creator = make_string(group->newest->creator);
    out->project_root = make_string(group->newest->project_root);
    out->files = (int64_t) group->files;
    out->changes = (int64_t) group->changes;
    out->added = (int64_t) group->added;
    out->modified = (int64_t) group->modified;
    out->deleted = (int64_t) group->deleted;
    out->latest_applied_at = make_timestamp(group->newest->applied_ns);
    return out;
}

/* ---- pending ---- */

/* A token is the sandbox of the last group of its page. If that sandbox has nothing pending any more, the list begins again. */
static size_t pending_find_group(const struct applied_group *groups, size_t count, const char *token)
{
    for (size_t i = 0; *token && i < count; i++)
        if (strcmp(groups[i].newest->sandbox_id, token) == 0)
            return i + 1;
    return 0;
}

int handle_list_pending(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ListPendingRequest *in = message;
    autodone(applied_change_rows) struct applied_change_rows rows = { 0 };
    autofree struct applied_group *groups = NULL;
    autofree char *root = NULL;
    struct applied_change_filter filter = { .only_pending = true };
    size_t max = take_bounded_page_size(in->page_size), count, at;
    int64_t total = 0;
    int r = sandboxes_find_root(&request->caller, in->project_root, &root, err);

    if (r < 0)
        return r;
    filter.project_root = *root ? root : NULL;
    r = reviews_applied(request->service, &request->caller, &filter, WORKSPACE_PENDING_MAX, 0, &rows, &total, err);
    if (r < 0)
        return r;
    groups = xalloc((rows.count + 1) * sizeof(*groups));
    count = applied_group_rows(&rows, groups);
    at = pending_find_group(groups, count, in->page_token);
    Sandbox__V1__ListPendingResponse *out = message_new(&sandbox__v1__list_pending_response__descriptor);
    out->sandboxes = xalloc(max * sizeof(*out->sandboxes));
    for (; at < count && out->n_sandboxes < max; at++)
        out->sandboxes[out->n_sandboxes++] = make_group(&groups[at]);
    if (at < count)
        out->next_page_token = make_string(groups[at - 1].newest->sandbox_id);
    out->total_files = (int64_t) applied_count_files(&rows);
    out->total_changes = total;
    *ret = &out->base;
    return 0;
}

/* ---- provenance ---- */

static Sandbox__V1__AppliedChange *make_applied(const struct applied_change_row *row)
{
    Sandbox__V1__AppliedChange *out = message_new(&sandbox__v1__applied_change__descriptor);

    out->id = make_string(row->id);
    out->approval_id = make_string(row->approval_id);
    out->sandbox_id = make_string(row->sandbox_id);
    out->creator = make_string(row->creator);
    out->creator_type = make_string(row->creator_type);
    out->actor = make_string(row->actor);
    out->path = make_string(row->file_path);
    out->relative_path = make_string(row->relative_path);
    out->project_root = make_string(row->project_root);
    out->kind = make_kind_of_name(row->change_type);
    out->size = row->size_bytes;
    out->content_hash = make_string(row->content_hash);
    out->applied_at = make_timestamp(row->applied_ns);
    out->undone_at = make_timestamp(row->undone_ns);
    out->committed_at = make_timestamp(row->committed_ns);
    out->commit_hash = make_string(row->commit_hash);
    out->commit_message = make_string(row->commit_message);
    return out;
}

/* Rows are never removed and new ones come first, so a token is the number of rows behind a page. */
static int provenance_take_offset(const char *token, int64_t total, size_t *ret, struct err *err)
{
    char *end;
    long long left = *token ? strtoll(token, &end, 10) : total;

    if (*token && (*end || left < 0 || left > total || strlen(token) > 18))
        return err_invalid(err, "page_token is not of this list");
    *ret = (size_t) (total - left);
    return 0;
}

int handle_list_provenance(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ListProvenanceRequest *in = message;
    autodone(applied_change_rows) struct applied_change_rows rows = { 0 }, none = { 0 };
    autofree char *path = NULL, *root = NULL;
    struct applied_change_filter filter = { 0 };
    size_t max = take_bounded_page_size(in->page_size), offset = 0;
    int64_t total = 0;
    int r = applied_find_path(request->service, &request->caller, in->path, in->project_root, &path, &root, err);

    filter.file_path = path;
    filter.project_root = root;
    if (r == 0 && *in->page_token)
        r = reviews_applied(request->service, &request->caller, &filter, 1, 0, &none, &total, err);
    if (r == 0)
        r = provenance_take_offset(in->page_token, total, &offset, err);
    if (r == 0)
        r = reviews_applied(request->service, &request->caller, &filter, max, offset, &rows, &total, err);
    if (r < 0)
        return r;
    Sandbox__V1__ListProvenanceResponse *out = message_new(&sandbox__v1__list_provenance_response__descriptor);
    out->path = make_string(path);
    out->changes = xalloc((rows.count + 1) * sizeof(*out->changes));
    for (size_t i = 0; i < rows.count; i++)
        out->changes[out->n_changes++] = make_applied(&rows.rows[i]);
    out->total = total;
    if ((int64_t) (offset + rows.count) < total)
        out->next_page_token = xprintf("%lld", (long long) (total - (int64_t) (offset + rows.count)));
    *ret = &out->base;
    return 0;
}

/* ---- commits ---- */

struct commit_wanted {
    struct review_commit_request request;
    char (*ids)[SANDBOX_ID_MAX]; /* owned */
    const char **sandbox_ids;    /* owned array, of these */
};

static void commit_wanted_done(struct commit_wanted *wanted)
{
    free(wanted->ids);
    free(wanted->sandbox_ids);
}

static int commit_take_request(const struct request *request, const char *project_root, char *const *sandbox_ids,
                               size_t sandbox_count, char *const *paths, size_t path_count, struct commit_wanted *ret,
                               struct err *err)
{
    if (sandbox_count > NAMES_MAX || path_count > NAMES_MAX)
        return err_invalid(err, "more than %d names", NAMES_MAX);
    ret->ids = xalloc((sandbox_count + 1) * sizeof(*ret->ids));
    ret->sandbox_ids = xalloc((sandbox_count + 1) * sizeof(*ret->sandbox_ids));
    for (size_t i = 0; i < sandbox_count; i++) {
        int r = request_find_sandbox(request, sandbox_ids[i], ret->ids[i], err);
        if (r < 0)
            return r;
        ret->sandbox_ids[i] = ret->ids[i];
    }
    ret->request = (struct review_commit_request){ .project_root = project_root,
                                                   .sandbox_ids = ret->sandbox_ids,
                                                   .sandbox_id_count = sandbox_count,
                                                   .file_paths = (const char *const *) paths,
                                                   .file_path_count = path_count,
                                                   .message = "",
                                                   .actor = "" };
    return 0;
}

static Sandbox__V1__CommitFile *make_commit_file(const struct applied_change_row *row, const struct commit_view *view)
{
    static const Sandbox__V1__CommitStatus statuses[] = {
        [COMMIT_IN_HEAD] = SANDBOX__V1__COMMIT_STATUS__COMMIT_STATUS_COMMITTED,
        [COMMIT_DIFFERS] = SANDBOX__V1__COMMIT_STATUS__COMMIT_STATUS_PENDING,
        [COMMIT_BLOCKED] = SANDBOX__V1__COMMIT_STATUS__COMMIT_STATUS_BLOCKED,
    };
    Sandbox__V1__CommitFile *out = message_new(&sandbox__v1__commit_file__descriptor);

    out->path = make_string(row->file_path);
    out->relative_path = make_string(row->relative_path);
    out->kind = make_kind_of_name(row->change_type);
    out->sandbox_id = make_string(row->sandbox_id);
    out->creator = make_string(row->creator);
    out->status = statuses[view->status];
    if (view->status == COMMIT_BLOCKED)
        out->reason = make_string(view->reason);
    out->applied_at = make_timestamp(row->applied_ns);
    return out;
}

/* Returns whether all files fit. */
static bool commit_add_files(Sandbox__V1__CommitFile ***files, size_t *count, const struct review_commit_plan *plan,
                             bool only_blocked, size_t room, int32_t *ret_total)
{
    size_t cap = 0, bytes = 0;

    *ret_total = 0;
    for (size_t i = 0; plan->views && i < plan->rows.count; i++) {
        Sandbox__V1__CommitFile *file;

        if (plan->latest[i] != i || (only_blocked && plan->views[i].status != COMMIT_BLOCKED))
            continue;
        ++*ret_total;
        if (bytes >= room)
            continue;
        file = make_commit_file(&plan->rows.rows[i], &plan->views[i]);
        bytes += protobuf_c_message_get_packed_size(&file->base) + 3;
        if (bytes >= room) {
            protobuf_c_message_free_unpacked(&file->base, NULL);
            continue;
        }
        vec_room(files, &cap, *count);
        (*files)[(*count)++] = file;
    }
    return bytes < room;
}

static int commit_set_failure(const struct request *request, int r, const struct review_commit_plan *plan,
                              const struct err *err)
{
    Sandbox__V1__CommitFailure *out;

    if (!err->reason || strcmp(err->reason, "FOREIGN_CHANGES") != 0)
        return r;
    out = message_new(&sandbox__v1__commit_failure__descriptor);
    commit_add_files(&out->files, &out->n_files, plan, true, call_failure_room(request->call), &out->total);
    call_take_failure(request->call, &out->base);
    return r;
}

static void commit_add_groups(Sandbox__V1__PreviewCommitResponse *out, const struct review_commit_plan *plan)
{
    autofree struct applied_group *groups = xalloc((plan->rows.count + 1) * sizeof(*groups));
    size_t count = applied_group_rows(&plan->rows, groups), bytes = 0;

    out->sandboxes = xalloc((count + 1) * sizeof(*out->sandboxes));
    for (size_t i = 0; i < count && bytes < REVIEW_ANSWER_BYTES / 2; i++) {
        out->sandboxes[out->n_sandboxes++] = make_group(&groups[i]);
        bytes += protobuf_c_message_get_packed_size(&out->sandboxes[i]->base);
    }
}

int handle_preview_commit(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__PreviewCommitRequest *in = message;
    autodone(review_commit_plan) struct review_commit_plan plan = { 0 };
    autodone(commit_wanted) struct commit_wanted wanted = { 0 };
    int32_t total;
    int r = commit_take_request(request, in->project_root, in->sandbox_ids, in->n_sandbox_ids, in->paths, in->n_paths, &wanted,
                                err);

    if (r == 0)
        r = reviews_commit_plan(request->service, &request->caller, &wanted.request, &plan, err);
    if (r < 0)
        return commit_set_failure(request, r, &plan, err);
    Sandbox__V1__PreviewCommitResponse *out = message_new(&sandbox__v1__preview_commit_response__descriptor);
    out->project_root = make_string(plan.project_root);
    out->files_truncated = !commit_add_files(&out->files, &out->n_files, &plan, false, REVIEW_ANSWER_BYTES, &total);
    out->pending = (int64_t) plan.dirty_count;
    out->committed = (int64_t) plan.clean_count;
    out->blocked = (int64_t) plan.blocked_count;
    out->suggested_message = make_text(plan.message.data ? plan.message.data : "", plan.message.len);
    commit_add_groups(out, &plan);
    *ret = &out->base;
    return 0;
}

int handle_commit_changes(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__CommitChangesRequest *in = message;
    autodone(review_commit_plan) struct review_commit_plan plan = { 0 };
    autodone(commit_wanted) struct commit_wanted wanted = { 0 };
    char hash[65] = "";
    size_t count = 0;
    int r = commit_take_request(request, in->project_root, in->sandbox_ids, in->n_sandbox_ids, in->paths, in->n_paths, &wanted,
                                err);

    if (r == 0 && strlen(in->message) > COMMIT_MESSAGE_BYTES_MAX)
        r = err_invalid(err, "message has more than %zu bytes", COMMIT_MESSAGE_BYTES_MAX);
    wanted.request.message = in->message;
    wanted.request.actor = in->actor;
    if (r == 0)
        r = reviews_commit(request->service, &request->caller, &wanted.request, &plan, hash, &count, err);
    if (r < 0)
        return commit_set_failure(request, r, &plan, err);
    Sandbox__V1__CommitChangesResponse *out = message_new(&sandbox__v1__commit_changes_response__descriptor);
    out->commit_hash = xdup(hash);
    out->files = (int64_t) count;
    *ret = &out->base;
    return 0;
}
