#include "service/workspace_commit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "review/commit.h"
#include "service/workspace_review_int.h"

#define NAMED_MAX 10
#define OWNERS_MAX 3

int workspaces_applied(struct service *service, const struct caller *caller, const struct applied_change_filter *filter,
                       size_t limit, size_t offset, struct applied_change_rows *ret, int64_t *ret_total, struct err *err)
{
    struct applied_change_filter own = *filter;

    own.account_id = caller->is_admin ? NULL : caller->owner;
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

/* ---- which project ---- */

static int no_root(struct err *err)
{
    return err_invalid(err, "projectRoot is required: this server has no default (workspace.project_root)");
}

/* With nothing said, what is pending may say it. */
static int find_root(struct service *service, const struct caller *caller, const struct workspace_commit_request *request,
                     char **ret, struct err *err)
{
    struct applied_change_filter filter = { .host_id = service->host_id, .only_pending = true };
    autodone(applied_change_rows) struct applied_change_rows rows = { 0 };
    const char *given = *request->project_root ? request->project_root : workspaces_project_root(service);
    int r;

    if (given && *given) {
        autofree char *real = realpath(given, NULL);
        *ret = xdup(real ? real : given);
        return 0;
    }
    r = workspaces_applied(service, caller, &filter, WORKSPACE_PENDING_MAX, 0, &rows, NULL, err);
    if (r < 0)
        return r;
    for (size_t i = 1; i < rows.count; i++)
        if (strcmp(rows.rows[i].project_root, rows.rows[0].project_root) != 0)
            return no_root(err);
    if (rows.count == 0)
        return no_root(err);
    *ret = xdup(rows.rows[0].project_root);
    return 0;
}

/* ---- the plan ---- */

void workspace_commit_plan_done(struct workspace_commit_plan *plan)
{
    free(plan->project_root);
    applied_change_rows_done(&plan->rows);
    free(plan->is_latest);
    free(plan->is_dirty);
    buf_done(&plan->message);
    *plan = (struct workspace_commit_plan){ 0 };
}

static bool is_among(const char *const *list, size_t count, const char *a, const char *b)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], a) == 0 || (b && strcmp(list[i], b) == 0))
            return true;
    return count == 0;
}

static void keep_wanted(struct workspace_commit_plan *plan, const struct workspace_commit_request *request)
{
    struct applied_change_rows *rows = &plan->rows;
    size_t kept = 0;

    for (size_t i = 0; i < rows->count; i++) {
        struct applied_change_row *row = &rows->rows[i];
        if (is_among(request->sandbox_ids, request->sandbox_id_count, row->workspace_id, NULL) &&
            is_among(request->file_paths, request->file_path_count, row->file_path, row->relative_path))
            rows->rows[kept++] = *row;
        else
            applied_change_row_done(row);
    }
    rows->count = kept;
}

static int by_path_then_age(const void *a, const void *b)
{
    const struct applied_change_row *one = *(struct applied_change_row *const *) a,
                                    *two = *(struct applied_change_row *const *) b;
    int order = strcmp(one->relative_path, two->relative_path);

    return order ? order : (one > two) - (one < two);
}

/* Rows come with the newest first, so the first of a path is the latest. */
static size_t mark_latest(struct workspace_commit_plan *plan, const char **paths, size_t *places)
{
    autofree struct applied_change_row **sorted = xalloc((plan->rows.count + 1) * sizeof(*sorted));
    size_t count = 0;

    for (size_t i = 0; i < plan->rows.count; i++)
        sorted[i] = &plan->rows.rows[i];
    if (plan->rows.count > 0)
        qsort(sorted, plan->rows.count, sizeof(*sorted), by_path_then_age);
    for (size_t i = 0; i < plan->rows.count; i++) {
        if (i > 0 && strcmp(sorted[i]->relative_path, sorted[i - 1]->relative_path) == 0)
            continue;
        places[count] = (size_t) (sorted[i] - plan->rows.rows);
        paths[count++] = sorted[i]->relative_path;
        plan->is_latest[places[count - 1]] = true;
    }
    return count;
}

static void suggest(struct workspace_commit_plan *plan)
{
    size_t added = 0, modified = 0, deleted = 0, named = 0, owners = 0;
    autodone(buf) struct buf names = BUF_EMPTY, who = BUF_EMPTY;

    for (size_t i = 0; i < plan->rows.count; i++) {
        const struct applied_change_row *row = &plan->rows.rows[i];
        if (!plan->is_latest[i] || !plan->is_dirty[i])
            continue;
        added += strcmp(row->change_type, "added") == 0;
        modified += strcmp(row->change_type, "modified") == 0;
        deleted += strcmp(row->change_type, "deleted") == 0;
        if (named++ < NAMED_MAX)
            buf_addf(&names, "\n- %s: %s", row->change_type, row->relative_path);
        if (*row->owner && owners < OWNERS_MAX && !(who.data && strstr(who.data, row->owner)))
            buf_addf(&who, "%s%s", owners++ ? ", " : " by ", row->owner);
    }
    buf_addf(&plan->message, "Apply %zu reviewed sandbox change%s%s\n\nAdded: %zu, modified: %zu, deleted: %zu\n", named,
             named == 1 ? "" : "s", who.data ? who.data : "", added, modified, deleted);
    if (named > 0 && named <= NAMED_MAX)
        buf_addf(&plan->message, "%s\n", names.data);
}

static int look(struct workspace_commit_plan *plan, struct err *err)
{
    autofree const char **paths = xalloc((plan->rows.count + 1) * sizeof(*paths));
    autofree size_t *places = xalloc((plan->rows.count + 1) * sizeof(*places));
    autofree bool *differs = xalloc(plan->rows.count + 1);
    struct attribution nobody = { .mode = ATTRIBUTION_AGENT };
    struct commit_request request = {
        .project_path = plan->project_root, .paths = paths, .attribution = &nobody, .message = ""
    };
    int r = 0;

    plan->is_latest = xalloc(plan->rows.count + 1);
    plan->is_dirty = xalloc(plan->rows.count + 1);
    request.path_count = mark_latest(plan, paths, places);
    if (request.path_count > 0)
        r = commit_look(&request, differs, err);
    for (size_t i = 0; r == 0 && i < request.path_count; i++) {
        plan->is_dirty[places[i]] = differs[i];
        *(differs[i] ? &plan->dirty_count : &plan->clean_count) += 1;
    }
    return r;
}

int workspaces_commit_plan(struct service *service, const struct caller *caller, const struct workspace_commit_request *request,
                           struct workspace_commit_plan *ret, struct err *err)
{
    struct applied_change_filter filter = { .host_id = service->host_id, .only_pending = true };
    int r = find_root(service, caller, request, &ret->project_root, err);

    filter.project_root = ret->project_root;
    if (r == 0)
        r = workspaces_applied(service, caller, &filter, WORKSPACE_PENDING_MAX, 0, &ret->rows, NULL, err);
    if (r < 0)
        return r;
    keep_wanted(ret, request);
    r = look(ret, err);
    if (r == 0)
        suggest(ret);
    return r;
}

/* ---- committing ---- */

/* All rows of a path go with its latest. */
static int note(struct service *service, const struct workspace_commit_plan *plan, bool dirty, const char *hash,
                const char *message, struct err *err)
{
    autofree const char **ids = xalloc((plan->rows.count + 1) * sizeof(*ids));
    size_t count = 0;

    for (size_t i = 0; i < plan->rows.count; i++) {
        const struct applied_change_row *row = &plan->rows.rows[i];
        bool is_dirty = plan->is_dirty[i];
        for (size_t k = 0; !plan->is_latest[i] && k < i; k++)
            if (plan->is_latest[k] && strcmp(plan->rows.rows[k].relative_path, row->relative_path) == 0)
                is_dirty = plan->is_dirty[k];
        if (is_dirty == dirty)
            ids[count++] = row->id;
    }
    int r = count ? applied_change_row_commit(service->store, ids, count, hash, message, clock_wall_ns(), err) : 0;
    return r < 0 ? r : 0;
}

static const char *owner_of(const struct workspace_commit_plan *plan)
{
    for (size_t i = 0; i < plan->rows.count; i++)
        if (plan->is_dirty[i] && *plan->rows.rows[i].owner)
            return plan->rows.rows[i].owner;
    return "";
}

static int commit_dirty(struct service *service, const struct caller *caller, const struct workspace_commit_request *request,
                        struct workspace_commit_plan *plan, struct commit *ret, struct err *err)
{
    autofree const char **paths = xalloc((plan->rows.count + 1) * sizeof(*paths));
    const char *message = *request->message ? request->message : plan->message.data;
    struct attribution attribution = { .mode = author_mode(service),
                                       .agent = owner_of(plan),
                                       .reviewer = *request->actor ? request->actor : caller->owner };
    autodone(buf) struct buf text = BUF_EMPTY;
    struct commit_request wanted = { .project_path = plan->project_root, .paths = paths, .attribution = &attribution };
    int r = attribution_message(&attribution, "{{.Text}}", &(struct attribution_word){ "Text", message }, 1, &text, err);

    if (r < 0)
        return r;
    wanted.message = text.data;
    for (size_t i = 0; i < plan->rows.count; i++)
        if (plan->is_latest[i] && plan->is_dirty[i])
            paths[wanted.path_count++] = plan->rows.rows[i].relative_path;
    r = commit_make(&wanted, ret, err);
    return r < 0 ? r : note(service, plan, true, *ret->hash ? ret->hash : WORKSPACE_COMMIT_EXTERNAL, message, err);
}

int workspaces_commit(struct service *service, const struct caller *caller, const struct workspace_commit_request *request,
                      char ret_hash[65], size_t *ret_count, struct err *err)
{
    autodone(workspace_commit_plan) struct workspace_commit_plan plan = { 0 };
    struct commit made = COMMIT_NONE;
    int r = workspaces_commit_plan(service, caller, request, &plan, err);

    if (r == 0 && plan.clean_count > 0)
        r = note(service, &plan, false, WORKSPACE_COMMIT_EXTERNAL, "", err);
    if (r == 0 && plan.dirty_count > 0)
        r = commit_dirty(service, caller, request, &plan, &made, err);
    if (r < 0)
        return r;
    memcpy(ret_hash, made.hash, sizeof(made.hash));
    *ret_count = *made.hash ? plan.dirty_count : 0;
    return 0;
}

/* ---- together with an approval ---- */

static char **list_paths(const struct workspace_approved *approved, const char *prefix, size_t *ret_count)
{
    char **paths = xalloc((2 * approved->set.count + 1) * sizeof(*paths));

    for (size_t i = 0; i < approved->set.count; i++) {
        const struct file_change *change = &approved->set.items[i];
        if (change->is_dir || (approved->files[i] && approved->verdicts[i] != WORKSPACE_VERDICT_APPLIED &&
                               approved->verdicts[i] != WORKSPACE_VERDICT_PARTLY))
            continue;
        if (approved->files[i] == NULL && approved->approve.files)
            continue;
        paths[(*ret_count)++] = xdup(change->path);
        if (change->from)
            paths[(*ret_count)++] = still_project_path(prefix, change->from->path);
    }
    return paths;
}

static void free_paths(char **paths, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
    free(paths);
}

int workspace_commit_check(const struct workspace_row *row, const char *prefix, const struct workspace_approved *approved,
                           struct err *err)
{
    struct attribution nobody = { .mode = ATTRIBUTION_AGENT };
    size_t count = 0;
    char **paths = list_paths(approved, prefix, &count);
    autofree bool *differs = xalloc(count + 1);
    struct commit_request request = { .project_path = row->project_root,
                                      .paths = (const char *const *) paths,
                                      .path_count = count,
                                      .attribution = &nobody,
                                      .message = "" };
    int r = commit_look(&request, differs, err);

    free_paths(paths, count);
    return r < 0 ? err_because(err, err_wrap(err, r, "nothing was applied, because it could not be committed"), "NO_REPOSITORY")
                 : 0;
}

static int make_message(struct still *still, const struct workspace_approval *request, size_t count,
                        const struct attribution *attribution, struct buf *out, struct err *err)
{
    const char *template = still->service->options.commit_template;
    char number[24];
    struct attribution_word words[] = { { "SandboxID", still->row.id },         { "FileCount", number },
                                        { "Actor", still->row.owner },          { "Owner", still->row.owner },
                                        { "ScopePath", still->row.scope_path }, { "Text", request->message } };

    snprintf(number, sizeof(number), "%zu", count);
    if (*request->message)
        template = "{{.Text}}";
    return attribution_message(attribution, template && *template ? template : NULL, words, ARRAY_LEN(words), out, err);
}

void workspace_commit_approved(struct still *still, const struct workspace_approval *request,
                               struct workspace_approved *approved, const char *const *row_ids)
{
    struct service *service = still->service;
    struct attribution attribution = { .mode = author_mode(service),
                                       .agent = still->row.owner,
                                       .reviewer = *request->actor ? request->actor : still->caller->owner };
    autodone(buf) struct buf message = BUF_EMPTY;
    struct commit made = COMMIT_NONE;
    struct err err = ERR_NONE;
    size_t count = 0, id_count = 0;
    char **paths = list_paths(approved, still->prefix, &count);
    int r = make_message(still, request, approved->applied, &attribution, &message, &err);

    while (row_ids[id_count])
        id_count++;
    if (r == 0)
        r = commit_make(&(struct commit_request){ .project_path = still->row.project_root,
                                                  .paths = (const char *const *) paths,
                                                  .path_count = count,
                                                  .attribution = &attribution,
                                                  .message = message.data },
                        &made, &err);
    free_paths(paths, count);
    if (r < 0) {
        snprintf(approved->commit_error, sizeof(approved->commit_error), "%s", err.text);
        return;
    }
    memcpy(approved->commit_hash, made.hash, sizeof(made.hash));
    r = applied_change_row_commit(service->store, row_ids, id_count, *made.hash ? made.hash : WORKSPACE_COMMIT_EXTERNAL,
                                  message.data, clock_wall_ns(), &err);
    if (r < 0)
        log_warn("a commit could not be noted", LOG_STR("sandbox_id", still->row.id), LOG_STR("error", err.text));
}
