/* Predicts whether an approval could be committed, before it is applied: afterwards it would be too late to refuse. */
#include "service/review_commit_forecast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "review/apply_txn.h"
#include "review/contribution.h"
#include "service/review_commit.h"
#include "service/reviews_int.h"

#define NAME_PREFIX "fc_" /* of temporary files in the directory of contributions */

struct forecast_file {
    char *scope_path, *path; /* owned; in the sandbox, and from the project's root */
    char name[ID_TEXT_MAX];  /* of its contribution; "": it would not be written */
};

struct commit_forecast {
    struct forecast_file *files; /* owned: files that differ from HEAD */
    size_t count;
    int fd; /* owned: the directory of contributions */
};

#define COMMIT_FORECAST_NONE ((struct commit_forecast){ .fd = -1 })

static void commit_forecast_done(struct commit_forecast *f)
{
    for (size_t i = 0; i < f->count; i++) {
        if (*f->files[i].name)
            unlinkat(f->fd, f->files[i].name, 0);
        free(f->files[i].scope_path);
        free(f->files[i].path);
    }
    free(f->files);
    cleanup_fd(&f->fd);
    *f = COMMIT_FORECAST_NONE;
}

/* ---- which files ---- */

static bool is_written(const struct review_approved *approved, size_t i)
{
    enum review_verdict verdict = approved->verdicts[i];

    return !approved->set.items[i].is_dir && approved->files[i] &&
           (verdict == REVIEW_VERDICT_APPLIED || verdict == REVIEW_VERDICT_PARTLY);
}

static void forecast_add_file(struct commit_forecast *f, const struct review_lock *review_lock, const char *scope_path)
{
    f->files[f->count++] = (struct forecast_file){ .scope_path = xdup(scope_path),
                                                   .path = review_lock_project_path(review_lock->prefix, scope_path) };
}

static void forecast_list_files(struct commit_forecast *f, const struct review_lock *review_lock,
                                const struct review_approved *approved)
{
    f->files = xalloc((2 * approved->set.count + 1) * sizeof(*f->files));
    for (size_t i = 0; i < approved->set.count; i++) {
        const struct file_change *change = &approved->set.items[i];
        if (!is_written(approved, i))
            continue;
        forecast_add_file(f, review_lock, change->scope_path);
        if (change->from)
            forecast_add_file(f, review_lock, change->from->path);
    }
}

static void forecast_drop_file(struct commit_forecast *f, size_t i)
{
    free(f->files[i].scope_path);
    free(f->files[i].path);
    f->files[i] = f->files[--f->count];
}

/* Rows store paths as text, with other bytes escaped, so pending rows of a file with such a path would not be found. */
static bool has_plain_name(const struct forecast_file *file)
{
    return !strchr(file->path, '\\') && utf8_is_valid(file->path, strlen(file->path));
}

static int forecast_preview(const struct review_lock *review_lock, const struct commit_forecast *f,
                            const struct commit_parts *parts, struct commit_view *ret, struct err *err)
{
    autofree const char **paths = xalloc((f->count + 1) * sizeof(*paths));
    struct attribution nobody = { .mode = ATTRIBUTION_AGENT };
    struct commit_request request = { .project_path = review_lock->row.project_root,
                                      .roots = review_lock->caller->allowed_roots,
                                      .paths = paths,
                                      .path_count = f->count,
                                      .attribution = &nobody,
                                      .message = "",
                                      .parts = parts,
                                      .parts_fd = f->fd };

    for (size_t i = 0; i < f->count; i++)
        paths[i] = f->files[i].path;
    return commit_preview(&request, ret, err);
}

/* A file that equals HEAD's version has no changes of others. */
static int forecast_find_files(struct commit_forecast *f, struct review_lock *review_lock,
                               const struct review_approved *approved, struct err *err)
{
    int r;

    forecast_list_files(f, review_lock, approved);
    autofree struct commit_view *views = xalloc((f->count + 1) * sizeof(*views));
    r = forecast_preview(review_lock, f, NULL, views, err);
    if (r < 0)
        return err_set_reason(err, err_wrap(err, r, "nothing was applied, because it could not be committed"),
                              r == -EPERM && err->reason ? err->reason : "NO_REPOSITORY");
    for (size_t i = f->count; i-- > 0;)
        if (views[i].status == COMMIT_IN_HEAD || !has_plain_name(&f->files[i]))
            forecast_drop_file(f, i);
    return f->count > 0 ? review_contributions_open(review_lock->service, &f->fd, err) : 0;
}

/* ---- predicted contents ---- */

/* A file too large to be merged is committed from the project's directory, where it is not yet. */
static int forecast_keep_contributions(struct commit_forecast *f, const struct approve *approve, struct err *err)
{
    for (size_t i = f->count; i-- > 0;) {
        autodone(contribution) struct contribution c = CONTRIBUTION_NONE;
        struct forecast_file *file = &f->files[i];
        int r = approve_foresee(approve, file->scope_path, &c);
        if (r > 0 && (!c.after.mode || c.after.has_bytes)) {
            c.path = xdup(file->path);
            id_new(NAME_PREFIX, file->name);
            r = contribution_keep(f->fd, file->name, &c);
        }
        if (r < 0) {
            autofree char *shown = apply_txn_quote(file->scope_path);
            return err_errno(err, r, "reading what would be in %s", shown);
        }
        if (!*file->name)
            forecast_drop_file(f, i);
    }
    return 0;
}

/* Lists the pending changes of a file, the oldest first, and then the new one. */
static size_t forecast_list_parts(const struct forecast_file *file, const struct applied_change_rows *rows, const char **ret)
{
    size_t count = 0;

    for (size_t i = rows->count; i-- > 0;)
        if (strcmp(rows->rows[i].relative_path, file->path) == 0)
            ret[count++] = rows->rows[i].id;
    ret[count++] = file->name;
    return count;
}

static int forecast_refuse(const struct commit_forecast *f, const struct commit_view *views, struct err *err)
{
    size_t count = 0, first = 0;

    for (size_t i = f->count; i-- > 0;) {
        if (views[i].status != COMMIT_BLOCKED)
            continue;
        count++;
        first = i;
    }
    if (count == 0)
        return 0;
    autofree char *shown = apply_txn_quote(f->files[first].path);
    autofree char *more = xprintf(" (and %zu more files like it)", count - 1);
    return err_set_reason(err,
                          err_set(err, ERR_FAILED_PRECONDITION, -EEXIST,
                                  "nothing was applied, because it could not be committed: %s %s%s", shown, views[first].reason,
                                  count > 1 ? more : ""),
                          "FOREIGN_CHANGES");
}

static int judge_files(struct commit_forecast *f, struct review_lock *review_lock, struct err *err)
{
    struct applied_change_filter filter = { .host_id = review_lock->service->host_id,
                                            .project_root = review_lock->row.project_root,
                                            .only_pending = true };
    autodone(applied_change_rows) struct applied_change_rows rows = { 0 };
    size_t used = 0;
    int r = reviews_applied(review_lock->service, review_lock->caller, &filter, WORKSPACE_PENDING_MAX, 0, &rows, NULL, err);

    if (r < 0)
        return r;
    autofree struct commit_view *views = xalloc(f->count * sizeof(*views));
    autofree struct commit_parts *parts = xalloc(f->count * sizeof(*parts));
    autofree const char **names = xalloc((rows.count + f->count) * sizeof(*names));
    for (size_t i = 0; i < f->count; i++) {
        size_t count = forecast_list_parts(&f->files[i], &rows, names + used);
        parts[i] = (struct commit_parts){ names + used, count };
        used += count;
    }
    r = forecast_preview(review_lock, f, parts, views, err);
    return r < 0 ? r : forecast_refuse(f, views, err);
}

int commit_forecast_check(struct review_lock *review_lock, const struct review_approved *approved, struct err *err)
{
    autodone(commit_forecast) struct commit_forecast f = COMMIT_FORECAST_NONE;

    if (review_lock->codebase)
        return err_set_reason(
            err,
            err_set(err, ERR_FAILED_PRECONDITION, -ENOTDIR,
                    "sandbox %s is over codebase %s, which has versions and no git repository; approve without a commit",
                    review_lock->row.id, review_lock->row.codebase_id),
            "NO_REPOSITORY");
    int r = forecast_find_files(&f, review_lock, approved, err);

    if (r == 0 && f.count > 0)
        r = forecast_keep_contributions(&f, &approved->approve, err);
    return r == 0 && f.count > 0 ? judge_files(&f, review_lock, err) : r;
}
