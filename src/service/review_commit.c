#include "service/review_commit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "review/apply_txn.h"
#include "review/commit.h"
#include "service/review_commit_int.h"
#include "service/reviews_int.h"

int reviews_applied(struct service *service, const struct caller *caller, const struct applied_change_filter *filter,
                    size_t limit, size_t offset, struct applied_change_rows *ret, int64_t *ret_total, struct err *err)
{
    struct applied_change_filter own = *filter;

    own.owner_id = caller->is_admin ? NULL : caller->owner;
    return applied_change_row_list(service->store, &own, limit, offset, ret, ret_total, err);
}

static enum attribution_mode author_mode(const struct service *service)
{
    enum attribution_mode mode = ATTRIBUTION_AGENT;
    struct err ignored = ERR_NONE;

    if (service->options.commit_author)
        attribution_parse_mode(service->options.commit_author, &mode, &ignored);
    return mode;
}

/* ---- committing ---- */

/* Updates all rows of a path together with its newest one. */
static int note_commit_status(struct service *service, const struct review_commit_plan *plan, enum commit_status status,
                              const char *hash, const char *message, struct err *err)
{
    autofree const char **ids = xalloc((plan->rows.count + 1) * sizeof(*ids));
    size_t count = 0;
    int r = 0;

    for (size_t i = 0; i < plan->rows.count; i++)
        if (plan->views[plan->latest[i]].status == status)
            ids[count++] = plan->rows.rows[i].id;
    if (count > 0)
        r = applied_change_row_commit(service->store, ids, count, hash, message, clock_wall_ns(), err);
    if (r >= 0)
        review_contributions_forget(service, ids, count);
    return r < 0 ? r : 0;
}

static const char *plan_owner(const struct review_commit_plan *plan)
{
    for (size_t i = 0; i < plan->rows.count; i++)
        if (review_commit_plan_is_dirty(plan, i) && *plan->rows.rows[i].creator)
            return plan->rows.rows[i].creator;
    return "";
}

static int refuse_blocked(const struct review_commit_plan *plan, struct err *err)
{
    for (size_t i = 0; i < plan->rows.count; i++) {
        if (plan->latest[i] != i || plan->views[i].status != COMMIT_BLOCKED)
            continue;
        autofree char *shown = apply_txn_quote(plan->rows.rows[i].relative_path);
        autofree char *more = xprintf(" (and %zu more files like it)", plan->blocked_count - 1);
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, -EEXIST, "%s %s%s", shown, plan->views[i].reason,
                                      plan->blocked_count > 1 ? more : ""),
                              "FOREIGN_CHANGES");
    }
    return 0;
}

/* Marks files that HEAD has, and commits the rest; or does nothing. */
static int commit_or_note(struct service *service, struct review_commit_plan *plan, const struct attribution *attribution,
                          const char *text, const char *message, struct commit *ret, struct err *err)
{
    autodone(plan_paths) struct plan_paths paths = PLAN_PATHS_NONE;
    struct commit_request wanted = {
        .project_path = plan->project_root, .roots = plan->roots, .attribution = attribution, .message = text
    };
    int r = refuse_blocked(plan, err);

    if (r == 0 && plan->dirty_count > 0)
        r = plan_paths_list(service, plan, true, &paths, err);
    if (r < 0)
        return r;
    wanted.paths = (const char *const *) paths.paths;
    wanted.path_count = paths.count;
    wanted.parts = paths.parts;
    wanted.parts_fd = paths.fd;
    if (plan->dirty_count > 0)
        r = commit_make(&wanted, ret, err);
    if (r == 0 && plan->dirty_count > 0)
        r = note_commit_status(service, plan, COMMIT_DIFFERS, *ret->hash ? ret->hash : WORKSPACE_COMMIT_EXTERNAL, message, err);
    return r < 0 ? r : note_commit_status(service, plan, COMMIT_IN_HEAD, WORKSPACE_COMMIT_EXTERNAL, "", err);
}

int reviews_commit(struct service *service, const struct caller *caller, const struct review_commit_request *request,
                   struct review_commit_plan *plan, char ret_hash[65], size_t *ret_count, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    struct commit made = COMMIT_NONE;
    int r = reviews_commit_plan(service, caller, request, plan, err);

    if (r < 0)
        return r;
    const char *message = *request->message ? request->message : plan->message.data;
    struct attribution attribution = { .mode = author_mode(service),
                                       .agent = plan_owner(plan),
                                       .reviewer = *request->actor ? request->actor : caller->owner };
    r = attribution_message(&attribution, "{{.Text}}", &(struct attribution_word){ "Text", message }, 1, &text, err);
    if (r == 0)
        r = commit_or_note(service, plan, &attribution, text.data, message, &made, err);
    if (r < 0)
        return r;
    memcpy(ret_hash, made.hash, sizeof(made.hash));
    *ret_count = *made.hash ? plan->dirty_count : 0;
    return 0;
}

/* ---- together with an approval ---- */

static int make_message(struct review_lock *review_lock, const struct review_approval *request, size_t count,
                        const struct attribution *attribution, struct buf *out, struct err *err)
{
    const char *template = review_lock->service->options.commit_template;
    char number[24];
    struct attribution_word words[] = { { "SandboxID", review_lock->row.id },         { "FileCount", number },
                                        { "Actor", review_lock->row.creator },        { "Owner", review_lock->row.creator },
                                        { "ScopePath", review_lock->row.scope_path }, { "Text", request->message } };

    snprintf(number, sizeof(number), "%zu", count);
    if (*request->message)
        template = "{{.Text}}";
    return attribution_message(attribution, template && *template ? template : NULL, words, ARRAY_LEN(words), out, err);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* Keeps only the pending rows of files that this approval has rows of. */
static size_t keep_files_of(struct applied_change_rows *rows, const char *sandbox_id, const char *approval_id)
{
    autofree const char **paths = xalloc((rows->count + 1) * sizeof(*paths));
    size_t ours = 0, kept = 0;

    for (size_t i = 0; i < rows->count; i++)
        if (strcmp(rows->rows[i].sandbox_id, sandbox_id) == 0 && strcmp(rows->rows[i].approval_id, approval_id) == 0)
            paths[ours++] = rows->rows[i].relative_path;
    if (ours > 0)
        qsort(paths, ours, sizeof(*paths), by_text);
    for (size_t i = 0; i < rows->count; i++) {
        const char *path = rows->rows[i].relative_path;
        if (ours > 0 && bsearch(&path, paths, ours, sizeof(*paths), by_text))
            rows->rows[kept++] = rows->rows[i];
        else
            applied_change_row_done(&rows->rows[i]);
    }
    rows->count = kept;
    return ours;
}

static int load_pending(struct review_lock *review_lock, const char *approval_id, size_t row_count,
                        struct review_commit_plan *ret, struct err *err)
{
    struct service *service = review_lock->service;
    struct applied_change_filter filter = { .host_id = service->host_id,
                                            .project_root = review_lock->row.project_root,
                                            .only_pending = true };
    int r = reviews_applied(service, review_lock->caller, &filter, WORKSPACE_PENDING_MAX, 0, &ret->rows, NULL, err);

    if (r < 0)
        return r;
    ret->project_root = xdup(review_lock->row.project_root);
    ret->roots = review_lock->caller->allowed_roots;
    if (keep_files_of(&ret->rows, review_lock->row.id, approval_id) < row_count)
        return err_set(err, ERR_INTERNAL, -ENOENT, "more is pending than can be looked at; commit what is pending first");
    return review_commit_plan_look(service, ret, err);
}

void review_commit_approved(struct review_lock *review_lock, const struct review_approval *request,
                            struct review_approved *approved, const char *const *row_ids)
{
    struct service *service = review_lock->service;
    struct attribution attribution = { .mode = author_mode(service),
                                       .agent = review_lock->row.creator,
                                       .reviewer = *request->actor ? request->actor : review_lock->caller->owner };
    autodone(review_commit_plan) struct review_commit_plan plan = { 0 };
    autodone(buf) struct buf message = BUF_EMPTY;
    struct commit made = COMMIT_NONE;
    struct err err = ERR_NONE;
    size_t row_count = 0;
    int r = make_message(review_lock, request, approved->applied, &attribution, &message, &err);

    while (row_ids[row_count])
        row_count++;
    if (r == 0)
        r = load_pending(review_lock, approved->approve.id, row_count, &plan, &err);
    if (r == 0)
        r = commit_or_note(service, &plan, &attribution, message.data, message.data, &made, &err);
    memcpy(approved->commit_hash, made.hash, sizeof(made.hash));
    if (r < 0 && *made.hash)
        log_warn("a commit could not be noted", LOG_STR("sandbox_id", review_lock->row.id), LOG_STR("error", err.text));
    else if (r < 0)
        snprintf(approved->commit_error, sizeof(approved->commit_error), "%s", err.text);
}
