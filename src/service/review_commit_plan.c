/* The contents of a commit: rows of provenance by file, and how each file compares with HEAD. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "review/contribution.h"
#include "service/review_commit_int.h"
#include "service/sandbox_tend.h"
#include "service/service_int.h"

#define NAMED_MAX 10
#define OWNERS_MAX 3

/* ---- the files, in the form of review/ ---- */

static int by_path_then_age(const void *a, const void *b)
{
    const struct applied_change_row *one = *(struct applied_change_row *const *) a,
                                    *two = *(struct applied_change_row *const *) b;
    int order = strcmp(one->relative_path, two->relative_path);

    return order ? order : (one > two) - (one < two);
}

void plan_paths_done(struct plan_paths *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->paths[i]);
    free(p->paths);
    free(p->places);
    free(p->parts);
    free(p->names);
    cleanup_fd(&p->fd);
}

/* The row's path is text, in which bytes that are not UTF-8 are escaped. */
static char *exact_path(const struct plan_paths *p, const struct applied_change_row *row)
{
    autodone(contribution) struct contribution part = CONTRIBUTION_NONE;

    if (strchr(row->relative_path, '\\') && contribution_load(p->fd, row->id, &part) == 0)
        return xdup(part.path);
    return xdup(row->relative_path);
}

/* Adds the rows of one path, the newest first. */
static void plan_add_path(struct plan_paths *p, struct review_commit_plan *plan, struct applied_change_row **rows, size_t count)
{
    size_t place = (size_t) (rows[0] - plan->rows.rows);

    p->paths[p->count] = exact_path(p, rows[0]);
    p->places[p->count] = place;
    p->parts[p->count++] = (struct commit_parts){ p->names + p->name_count, count };
    for (size_t i = count; i-- > 0;) {
        p->names[p->name_count++] = rows[i]->id;
        plan->latest[rows[i] - plan->rows.rows] = place;
    }
}

int plan_paths_list(struct service *service, struct review_commit_plan *plan, bool only_dirty, struct plan_paths *ret,
                    struct err *err)
{
    size_t count = plan->rows.count;
    autofree struct applied_change_row **sorted = xalloc((count + 1) * sizeof(*sorted));

    ret->paths = xalloc((count + 1) * sizeof(*ret->paths));
    ret->places = xalloc((count + 1) * sizeof(*ret->places));
    ret->parts = xalloc((count + 1) * sizeof(*ret->parts));
    ret->names = xalloc((count + 1) * sizeof(*ret->names));
    for (size_t i = 0; i < count; i++)
        sorted[i] = &plan->rows.rows[i];
    if (count > 0)
        qsort(sorted, count, sizeof(*sorted), by_path_then_age);
    int r = review_contributions_open(service, &ret->fd, err);
    for (size_t i = 0, n; r == 0 && i < count; i += n) {
        for (n = 1; i + n < count && strcmp(sorted[i]->relative_path, sorted[i + n]->relative_path) == 0;)
            n++;
        if (!only_dirty || plan->views[sorted[i] - plan->rows.rows].status == COMMIT_DIFFERS)
            plan_add_path(ret, plan, sorted + i, n);
    }
    return r;
}

/* ---- choosing the project ---- */

static int no_root(struct err *err)
{
    return err_invalid(err, "projectRoot is required: this server has no default (workspace.project_root)");
}

static int find_root_of_sandbox(struct service *service, const struct caller *caller, const char *id, char **ret,
                                struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    int r = service_find_sandbox(service, caller, id, &row, err);

    return r < 0 ? r : sandboxes_find_root(caller, row.project_root, ret, err);
}

/* If the request names no project, it is that of the first sandbox, else the server's, else the only one with pending
 * changes. */
static int find_root(struct service *service, const struct caller *caller, const struct review_commit_request *request,
                     char **ret, struct err *err)
{
    struct applied_change_filter filter = { .host_id = service->host_id, .only_pending = true };
    autodone(applied_change_rows) struct applied_change_rows rows = { 0 };
    const char *ours = sandboxes_project_root(service);
    int r;

    if (*request->project_root)
        return sandboxes_find_root(caller, request->project_root, ret, err);
    if (request->sandbox_id_count > 0)
        return find_root_of_sandbox(service, caller, request->sandbox_ids[0], ret, err);
    if (ours && *ours) {
        autofree char *real = realpath(ours, NULL);
        *ret = xdup(real ? real : ours);
        return 0;
    }
    r = reviews_applied(service, caller, &filter, WORKSPACE_PENDING_MAX, 0, &rows, NULL, err);
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

void review_commit_plan_done(struct review_commit_plan *plan)
{
    free(plan->project_root);
    applied_change_rows_done(&plan->rows);
    free(plan->latest);
    free(plan->views);
    buf_done(&plan->message);
    *plan = (struct review_commit_plan){ 0 };
}

static bool is_path_listed(const char *const *list, size_t count, const char *a, const char *b)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], a) == 0 || (b && strcmp(list[i], b) == 0))
            return true;
    return count == 0;
}

static void keep_requested_rows(struct review_commit_plan *plan, const struct review_commit_request *request)
{
    struct applied_change_rows *rows = &plan->rows;
    size_t kept = 0;

    for (size_t i = 0; i < rows->count; i++) {
        struct applied_change_row *row = &rows->rows[i];
        if (is_path_listed(request->sandbox_ids, request->sandbox_id_count, row->sandbox_id, NULL) &&
            is_path_listed(request->file_paths, request->file_path_count, row->file_path, row->relative_path))
            rows->rows[kept++] = *row;
        else
            applied_change_row_done(row);
    }
    rows->count = kept;
}

bool review_commit_plan_is_dirty(const struct review_commit_plan *plan, size_t i)
{
    return plan->latest[i] == i && plan->views[i].status == COMMIT_DIFFERS;
}

static void suggest_message(struct review_commit_plan *plan)
{
    size_t added = 0, modified = 0, deleted = 0, named = 0, owners = 0;
    autodone(buf) struct buf names = BUF_EMPTY, who = BUF_EMPTY;

    for (size_t i = 0; i < plan->rows.count; i++) {
        const struct applied_change_row *row = &plan->rows.rows[i];
        if (!review_commit_plan_is_dirty(plan, i))
            continue;
        added += strcmp(row->change_type, "added") == 0;
        modified += strcmp(row->change_type, "modified") == 0;
        deleted += strcmp(row->change_type, "deleted") == 0;
        if (named++ < NAMED_MAX)
            buf_addf(&names, "\n- %s: %s", row->change_type, row->relative_path);
        if (*row->creator && owners < OWNERS_MAX && !(who.data && strstr(who.data, row->creator)))
            buf_addf(&who, "%s%s", owners++ ? ", " : " by ", row->creator);
    }
    buf_addf(&plan->message, "Apply %zu reviewed sandbox change%s%s\n\nAdded: %zu, modified: %zu, deleted: %zu\n", named,
             named == 1 ? "" : "s", who.data ? who.data : "", added, modified, deleted);
    if (named > 0 && named <= NAMED_MAX)
        buf_addf(&plan->message, "%s\n", names.data);
}

int review_commit_plan_look(struct service *service, struct review_commit_plan *plan, struct err *err)
{
    autodone(plan_paths) struct plan_paths paths = PLAN_PATHS_NONE;
    autofree struct commit_view *views = xalloc((plan->rows.count + 1) * sizeof(*views));
    struct attribution nobody = { .mode = ATTRIBUTION_AGENT };
    struct commit_request request = {
        .project_path = plan->project_root, .roots = plan->roots, .attribution = &nobody, .message = ""
    };
    int r;

    plan->latest = xalloc((plan->rows.count + 1) * sizeof(*plan->latest));
    plan->views = xalloc((plan->rows.count + 1) * sizeof(*plan->views));
    r = plan_paths_list(service, plan, false, &paths, err);
    request.paths = (const char *const *) paths.paths;
    request.path_count = paths.count;
    request.parts = paths.parts;
    request.parts_fd = paths.fd;
    if (r == 0 && paths.count > 0)
        r = commit_preview(&request, views, err);
    for (size_t i = 0; r == 0 && i < paths.count; i++) {
        plan->views[paths.places[i]] = views[i];
        *(views[i].status == COMMIT_DIFFERS   ? &plan->dirty_count
          : views[i].status == COMMIT_BLOCKED ? &plan->blocked_count
                                              : &plan->clean_count) += 1;
    }
    return r;
}

int reviews_commit_plan(struct service *service, const struct caller *caller, const struct review_commit_request *request,
                        struct review_commit_plan *ret, struct err *err)
{
    struct applied_change_filter filter = { .host_id = service->host_id, .only_pending = true };
    int r = find_root(service, caller, request, &ret->project_root, err);

    ret->roots = caller->allowed_roots;

    filter.project_root = ret->project_root;
    if (r == 0)
        r = reviews_applied(service, caller, &filter, WORKSPACE_PENDING_MAX, 0, &ret->rows, NULL, err);
    if (r < 0)
        return r;
    keep_requested_rows(ret, request);
    r = review_commit_plan_look(service, ret, err);
    if (r == 0)
        suggest_message(ret);
    return r;
}
