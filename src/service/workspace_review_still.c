#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "fence/copy_delta.h"
#include "fence/hold.h"
#include "service/life.h"
#include "service/workspace_review_int.h"
#include "wire/ctl_file_client.h"

#define TAG 1
#define HOLD_WAIT_MS 10000
#define ASK_MS 30000
#define RELEASE_MS 120000
#define BUSY_TRIES 100
#define BUSY_WAIT_US 20000
#define BIT(name) WORKSPACE_STATUS_BIT(WORKSPACE_STATUS_##name)

char *still_project_path(const char *prefix, const char *scope_path)
{
    return *prefix ? xprintf("%s/%s", prefix, scope_path) : xdup(scope_path);
}

/* The scope lies in the root, or is it: workspace_scope.c saw to that. */
char *workspace_prefix(const struct workspace_row *row)
{
    size_t len = strlen(row->project_root);
    const char *rest = row->scope_path;

    if (strncmp(rest, row->project_root, len) == 0)
        rest += len;
    while (*rest == '/')
        rest++;
    return xdup(rest);
}

static int check(const struct workspace_row *row, int64_t version, unsigned statuses, const char *verbed, struct err *err)
{
    if (!(statuses & WORKSPACE_STATUS_BIT(row->status)))
        return err_because(err,
                           err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "sandbox %s is %s, and cannot be %s", row->id,
                                   workspace_status_name((enum workspace_status) row->status), verbed),
                           "INVALID_STATE");
    if (!version || version == row->row_version)
        return 0;
    return err_because(err,
                       err_set(err, ERR_ABORTED, -ESTALE, "sandbox %s was changed meanwhile (version %lld, now %lld)", row->id,
                               (long long) version, (long long) row->row_version),
                       "VERSION_MISMATCH");
}

int still_begin(struct service *service, const struct caller *caller, const char *id, int64_t version, unsigned statuses,
                const char *verbed, struct still *ret, struct err *err)
{
    int r;

    *ret = STILL_NONE;
    ret->service = service;
    ret->caller = caller;
    r = workspace_hold(service, caller, id, &ret->ward, &ret->row, err);
    if (r == 0)
        r = check(&ret->row, version, statuses, verbed, err);
    if (r < 0)
        return r;
    ret->delta_path = workspaces_path(service, id, "delta");
    ret->prefix = workspace_prefix(&ret->row);
    ret->dir_fd = openat(service->home.sandboxes_fd, ret->ward->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (ret->dir_fd < 0)
        return err_because(
            err, err_set(err, ERR_FAILED_PRECONDITION, -errno, "the changes of sandbox %s are not there any more", id),
            "INVALID_STATE");
    review_record_recover(ret);
    /* That may have ended it. */
    return check(&ret->row, 0, statuses, verbed, err);
}

bool still_can_hold(const struct still *still)
{
    return strcmp(still->row.driver, WORKSPACE_DRIVER) == 0;
}

static int stop_for_now(struct still *still)
{
    life_end(still->service, still->ward);
    still->starts_again = true;
    return 0;
}

int still_hold(struct still *still, struct err *err)
{
    int r;

    if (still->row.status != WORKSPACE_STATUS_ACTIVE || still->fd >= 0 || still->starts_again)
        return 0;
    if (!still_can_hold(still))
        return stop_for_now(still);
    autofd int fd = -1;
    r = ward_take_fd(still->ward, &fd, err);
    if (r < 0)
        return err_because(err, r, "INVALID_STATE");
    if (!still->payload)
        still->payload = xalloc(FRAME_PAYLOAD_MAX);
    r = ctl_client_hold(fd, TAG, HOLD_WAIT_MS, CTL_HOLD_MS_MAX, still->payload, ASK_MS, err);
    if (r < 0)
        return err_wrap(err, r, "holding sandbox %s still", still->row.id);
    still->fd = steal_fd(&fd);
    return 0;
}

bool still_is_held(const struct still *still)
{
    return still->fd >= 0 || (still->row.status == WORKSPACE_STATUS_ACTIVE && !still_can_hold(still) && !still->starts_again);
}

static int send_drops(struct still *still, const struct fence_drop *drops, size_t count, struct err *err)
{
    autofree const char **paths = xalloc((count + 1) * sizeof(*paths));
    size_t path_count = 0;
    int r = 0;

    for (size_t i = 0; i < count && r == 0; i++) {
        if (drops[i].replace_fd >= 0)
            r = ctl_client_replace(still->fd, TAG, drops[i].path, drops[i].replace_fd, still->payload, ASK_MS, err);
        else
            paths[path_count++] = drops[i].path;
    }
    return r < 0 || path_count == 0 ? r : ctl_client_drop(still->fd, TAG, paths, path_count, still->payload, RELEASE_MS, err);
}

/* The connection's end releases without drops; so does an error before the release. */
static int release_held(struct still *still, const struct fence_drop *drops, size_t count, struct err *err)
{
    int r = send_drops(still, drops, count, err);

    if (r == 0)
        r = ctl_client_release(still->fd, TAG, still->payload, RELEASE_MS, err);
    if (r == 0)
        ward_give_fd(still->ward, steal_fd(&still->fd));
    cleanup_fd(&still->fd);
    still->fd = -1;
    return r;
}

bool still_is_copy(const struct still *still)
{
    return strcmp(still->row.driver, "copy") == 0;
}

int still_follow(struct still *still, const char *const *paths, size_t count, bool keeps_work, struct err *err)
{
    if (!still_is_copy(still) || count == 0)
        return 0;
    return copy_delta_follow(still->dir_fd, still->row.scope_path, paths, count, keeps_work, err);
}

static int drop_at_rest(struct still *still, const struct fence_drop *drops, size_t count, struct err *err)
{
    autofree const char **paths = xalloc((count + 1) * sizeof(*paths));
    int r = -EBUSY;

    /* A child of ours that is between its fork and its exec has the delta's lock, too, for a moment. */
    for (int i = 0; i < BUSY_TRIES && r == -EBUSY; i++) {
        if (i > 0)
            usleep(BUSY_WAIT_US);
        *err = ERR_NONE;
        r = delta_drop(still->delta_path, drops, count, err);
    }
    for (size_t i = 0; i < count; i++)
        paths[i] = drops[i].path + 1;
    return r < 0 ? r : still_follow(still, paths, count, false, err);
}

int still_release(struct still *still, const struct fence_drop *drops, size_t count, struct err *err)
{
    if (still->fd >= 0)
        return release_held(still, drops, count, err);
    return count > 0 ? drop_at_rest(still, drops, count, err) : 0;
}

int still_halt(struct still *still, struct err *err)
{
    int r;

    if (still->fd >= 0)
        release_held(still, NULL, 0, &(struct err){ 0 });
    if (still->row.status != WORKSPACE_STATUS_ACTIVE)
        return 0;
    r = workspace_halt(still->service, still->ward, &still->row, 0, err);
    if (r == 0)
        still->starts_again = false;
    return r;
}

static void start_again(struct still *still)
{
    struct err err = ERR_NONE;

    if (still->row.status != WORKSPACE_STATUS_ACTIVE || workspace_boot(still->service, still->ward, &still->row, -1, &err) == 0)
        return;
    log_warn("a sandbox could not be started again after its review", LOG_STR("sandbox_id", still->row.id),
             LOG_STR("error", err.text));
    workspace_ended(still->service, still->ward, err.text);
}

void still_done(struct still *still)
{
    if (still->fd >= 0)
        release_held(still, NULL, 0, &(struct err){ 0 });
    if (still->starts_again)
        start_again(still);
    if (still->ward)
        workspace_release(still->ward);
    cleanup_fd(&still->dir_fd);
    free(still->delta_path);
    free(still->prefix);
    free(still->payload);
    workspace_row_done(&still->row);
    *still = STILL_NONE;
}
