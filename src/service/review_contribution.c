/* Keeps what approvals changed in files until it is committed (review/contribution.h): a file for each row of provenance. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/commit.h"
#include "review/contribution.h"
#include "service/review_commit.h"
#include "service/reviews_int.h"

#define DIRECTORY "contributions"
#define KEPT_NS ((int64_t) 30 * 24 * 3600 * CLOCK_NS_PER_SEC)

static int open_kept(struct service *service)
{
    return path_open_beneath(service->state_dir.fd, DIRECTORY, O_RDONLY | O_DIRECTORY, 0);
}

int review_contributions_open(struct service *service, int *ret_fd, struct err *err)
{
    int r = path_mkdirs_beneath(service->state_dir.fd, DIRECTORY, 0700);

    if (r == 0)
        r = open_kept(service);
    if (r < 0)
        return err_errno(err, r, "opening what is kept for commits");
    *ret_fd = r;
    return 0;
}

static int keep_contribution(const struct contribution_source *source, int dir_fd, const char *prefix, const char *scope_path,
                             const char *id)
{
    autodone(contribution) struct contribution c = CONTRIBUTION_NONE;
    int r = contribution_source_read(source, scope_path, &c);

    if (r < 0)
        return r;
    c.path = review_lock_project_path(prefix, scope_path);
    return contribution_keep(dir_fd, id, &c);
}

/* If a contribution cannot be kept, a later commit reports that; the approval itself succeeds. */
void review_contributions_keep(struct review_lock *review_lock, const char *approval_id, const struct applied_change_row *rows,
                               const char *const *scope_paths, size_t count)
{
    autoptr(contribution_source) source = NULL;
    struct err err = ERR_NONE;
    autofd int fd = -1;
    size_t lost = 0;
    int r;

    if (count == 0 || !commit_is_possible(review_lock->row.project_root, review_lock->caller->allowed_roots))
        return;
    r = review_contributions_open(review_lock->service, &fd, &err);
    if (r == 0)
        r = contribution_source_open(review_lock->delta_path, approval_id, &source, &err);
    for (size_t i = 0; r == 0 && i < count; i++)
        lost += keep_contribution(source, fd, review_lock->prefix, scope_paths[i], rows[i].id) < 0;
    if (r < 0 || lost > 0)
        log_warn("what was approved is not kept for a commit", LOG_STR("sandbox_id", review_lock->row.id),
                 LOG_STR("approval_id", approval_id), LOG_INT("files", (int64_t) (r < 0 ? count : lost)),
                 LOG_STR("error", err.text));
}

/* Without the directory there is nothing to remove. */
void review_contributions_forget(struct service *service, const char *const *ids, size_t count)
{
    autofd int fd = open_kept(service);

    for (size_t i = 0; fd >= 0 && i < count; i++)
        unlinkat(fd, ids[i], 0);
}

void review_contributions_sweep(struct service *service)
{
    struct err err = ERR_NONE;
    autofd int fd = open_kept(service);

    if (fd == -ENOENT)
        return;
    if (fd < 0)
        err_errno(&err, fd, "opening what is kept for commits");
    if (fd < 0 || contribution_sweep(fd, clock_wall_ns() - KEPT_NS, &err) < 0)
        log_warn("what was kept for commits is not removed", LOG_STR("error", err.text));
}
