#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/copy_delta.h"
#include "fence/delta.h"
#include "fence/quiesce.h"
#include "service/caller.h"
#include "service/life.h"
#include "service/shelf_int.h"
#include "service/sync.h"
#include "service/workspace_review_int.h"
#include "wire/ctl_file_client.h"

#define TAG 1
#define HOLD_WAIT_MS 10000
#define ASK_MS 30000
#define RELEASE_MS 120000
#define BUSY_TRIES 100
#define BUSY_WAIT_US 20000
#define BIT(name) SANDBOX_STATE_BIT(SANDBOX_STATE_##name)

char *still_project_path(const char *prefix, const char *scope_path)
{
    return *prefix ? xprintf("%s/%s", prefix, scope_path) : xdup(scope_path);
}

/* The scope lies in the root, or is it: workspace_scope.c saw to that. */
char *workspace_prefix(const struct sandbox_row *row)
{
    size_t len = strlen(row->project_root);
    const char *rest = row->scope_path;

    if (strncmp(rest, row->project_root, len) == 0)
        rest += len;
    while (*rest == '/')
        rest++;
    return xdup(rest);
}

static int check(const struct sandbox_row *row, int64_t version, unsigned states, const char *verbed, struct err *err)
{
    if (!(states & SANDBOX_STATE_BIT(sandbox_row_state(row))))
        return life_refuse_state(row, verbed, err);
    return life_check_version(row, version, err);
}

/* What syncs goes into its codebase without a review, and what lands in a codebase has to become a version of it. */
static int check_base(const struct sandbox_row *row, struct err *err)
{
    if (row->sync_on_completion)
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, -EOPNOTSUPP,
                                      "sandbox %s syncs its changes into its codebase; there is nothing to review", row->id),
                              "SANDBOX_SYNCS");
    if (!sandbox_row_is_over_directory(row))
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, -EOPNOTSUPP,
                                      "sandbox %s is over a codebase, and its changes cannot be reviewed", row->id),
                              "BASE_IS_CODEBASE");
    return 0;
}

int still_begin(struct service *service, const struct caller *caller, const char *id, int64_t version, unsigned states,
                const char *verbed, struct still *ret, struct err *err)
{
    int r;

    *ret = STILL_NONE;
    ret->service = service;
    ret->caller = caller;
    r = life_hold(service, caller, id, &ret->ward, &ret->row, err);
    if (r == 0)
        r = check_base(&ret->row, err);
    if (r == 0)
        r = check(&ret->row, version, states, verbed, err);
    if (r < 0)
        return r;
    ret->delta_path = workspaces_path(service, id, "delta");
    ret->prefix = workspace_prefix(&ret->row);
    ret->dir_fd = openat(service->state_dir.sandboxes_fd, ret->ward->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (ret->dir_fd < 0 && errno != ENOENT)
        return err_errno(err, -errno, "opening the changes of sandbox %s", id);
    if (ret->dir_fd < 0)
        return err_set_reason(
            err, err_set(err, ERR_FAILED_PRECONDITION, -ENOENT, "the changes of sandbox %s are not there any more", id),
            "INVALID_STATE");
    r = still_take_codebase(ret, "", false, err);
    if (r < 0)
        return r;
    review_record_recover(ret);
    /* That may have ended it. */
    return check(&ret->row, 0, states, verbed, err);
}

int still_take_codebase(struct still *still, const char *codebase_id, bool syncs, struct err *err)
{
    int r;

    if (!*codebase_id)
        return 0;
    if (syncs)
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, -EOPNOTSUPP,
                                      "sandbox %s syncs its changes to codebase %s, and none of them waits for a review",
                                      still->row.id, codebase_id),
                              "SANDBOX_SYNCS");
    r = codebase_open(still->service->codebases, codebase_id, &still->codebase, err);
    if (r < 0)
        return r;
    still->by = caller_name(still->caller);
    still->message = xprintf("approve %s", still->row.id);
    still->lands = (struct apply_txn_codebase){ still->codebase, still->by, still->message };
    return 0;
}

const struct apply_txn_codebase *still_lands_in(const struct still *still)
{
    return still->codebase ? &still->lands : NULL;
}

void still_tell_version(struct still *still)
{
    struct err err = ERR_NONE;

    if (!still->codebase)
        return;
    if (shelf_refresh_row(still->service, still->codebase, &err) < 0)
        log_warn("size and version of a codebase could not be noted", LOG_STR("codebase_id", codebase_id(still->codebase)),
                 LOG_STR("error", err.text));
    sync_tell_siblings(still->service, codebase_id(still->codebase), NULL, NULL, 0);
}

static bool is_fence(const struct still *still)
{
    return strcmp(still->row.driver, WORKSPACE_DRIVER) == 0;
}

bool still_is_copy(const struct still *still)
{
    return strcmp(still->row.driver, "copy") == 0;
}

static bool is_running(const struct still *still)
{
    return sandbox_row_state(&still->row) == SANDBOX_STATE_ACTIVE && !still->starts_again;
}

bool still_is_calm(const struct still *still)
{
    return still->fd >= 0 || !is_running(still);
}

/* A copy's is taken by whoever makes it anew. */
bool still_is_locked(const struct still *still)
{
    return is_running(still) && !still_is_copy(still);
}

bool still_can_drop(const struct still *still)
{
    return is_fence(still) || !is_running(still);
}

/* Its processes end, so it is for people to say. */
static int stop_for_now(struct still *still, const char *why, struct err *err)
{
    if (!still->may_stop)
        return err_set_reason(
            err,
            err_set(err, ERR_FAILED_PRECONDITION, -EBUSY,
                    "sandbox %s, on the driver %s, would have to be stopped for that and started again, and its "
                    "processes would end (%s); nothing was changed",
                    still->row.id, still->row.driver, why),
            "WOULD_STOP");
    life_end(still->service, still->ward);
    still->starts_again = true;
    return 0;
}

static int hold(struct still *still, struct err *err)
{
    autofd int fd = -1;
    int r = ward_take_fd(still->ward, &fd, err);

    if (r < 0)
        return err_set_reason(err, r, "INVALID_STATE");
    if (!still->payload)
        still->payload = xalloc(FRAME_PAYLOAD_MAX);
    r = ctl_client_quiesce(fd, TAG, HOLD_WAIT_MS, CTL_QUIESCE_MS_MAX, still->payload, ASK_MS, err);
    if (r < 0)
        return err_wrap(err, r, "holding sandbox %s still", still->row.id);
    still->fd = steal_fd(&fd);
    return 0;
}

int still_try(struct still *still, struct err *err)
{
    struct err why = ERR_NONE;
    int r = still_is_calm(still) ? 0 : hold(still, &why);

    if (r < 0 && is_fence(still)) {
        *err = why;
        return r;
    }
    return 0;
}

int still_hold(struct still *still, struct err *err)
{
    struct err why = ERR_NONE;
    int r = still_is_calm(still) ? 0 : hold(still, &why);

    if (r == 0)
        return 0;
    if (!is_fence(still))
        return stop_for_now(still, why.text, err);
    *err = why;
    return r;
}

int still_hold_to_drop(struct still *still, struct err *err)
{
    if (!is_running(still) || is_fence(still) || still_is_copy(still))
        return still_hold(still, err);
    return stop_for_now(still, "the kernel's overlayfs must not have its layers changed while it is mounted", err);
}

static int send_reverts(struct still *still, const struct fence_revert *drops, size_t count, struct err *err)
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
    return r < 0 || path_count == 0 ? r : ctl_client_revert(still->fd, TAG, paths, path_count, still->payload, RELEASE_MS, err);
}

/* The connection's end releases without drops; so does an error before the release. */
static int release_held(struct still *still, const struct fence_revert *drops, size_t count, struct err *err)
{
    int r = send_reverts(still, drops, count, err);

    if (r == 0)
        r = ctl_client_release(still->fd, TAG, still->payload, RELEASE_MS, err);
    if (r == 0)
        ward_give_fd(still->ward, steal_fd(&still->fd));
    cleanup_fd(&still->fd);
    still->fd = -1;
    return r;
}

static int drop_at_rest(struct still *still, const struct fence_revert *drops, size_t count, struct err *err)
{
    int r = -EBUSY;

    /* A child of ours that is between its fork and its exec has the delta's lock, too, for a moment. */
    for (int i = 0; i < BUSY_TRIES && r == -EBUSY; i++) {
        if (i > 0)
            usleep(BUSY_WAIT_US);
        *err = ERR_NONE;
        r = delta_revert(still->delta_path, drops, count, err);
    }
    return r;
}

static const char **list_paths(const struct fence_revert *drops, size_t count)
{
    const char **paths = xalloc((count + 1) * sizeof(*paths));

    for (size_t i = 0; i < count; i++)
        paths[i] = drops[i].path + 1;
    return paths;
}

static int open_base(const struct still *still, struct err *err)
{
    struct delta_info about = DELTA_INFO_NONE;
    int r = delta_info_open(still->delta_path, &about, err);

    if (r == 0)
        r = delta_info_open_base(&about, O_RDONLY, err);
    delta_info_done(&about);
    return r;
}

int still_open_root(const struct still *still, struct err *err)
{
    const struct sandbox_row *row = &still->row;
    autofd int base = open_base(still, err);
    struct stat a, b;

    if (base < 0 || still->codebase)
        return steal_fd(&base);
    autofd int root = path_open_real(row->project_root, O_RDONLY | O_DIRECTORY);
    autofd int scope = root < 0 ? root : path_open_beneath(root, *still->prefix ? still->prefix : ".", O_PATH | O_DIRECTORY, 0);
    if (scope < 0)
        return err_errno(err, scope, "opening the project '%s'", row->project_root);
    if (fstat(base, &a) < 0 || fstat(scope, &b) < 0)
        return err_errno(err, -errno, "opening the project '%s'", row->project_root);
    if (a.st_dev != b.st_dev || a.st_ino != b.st_ino)
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, -EXDEV,
                                      "'%s' is another directory now; put the old one back", row->project_root),
                              "BASE_REPLACED");
    return steal_fd(&root);
}

static int follow_base(struct still *still, const char *const *paths, size_t count, struct err *err)
{
    autofd int base = open_base(still, err);

    return base < 0 ? base : copy_delta_revert(still->dir_fd, base, paths, count, err);
}

int still_release(struct still *still, const struct fence_revert *drops, size_t count, struct err *err)
{
    autofree const char **paths = list_paths(drops, count);
    int r = 0;

    /* The delta of a copy is made anew from its two trees. */
    if (count > 0 && still_is_copy(still))
        r = follow_base(still, paths, count, err);
    else if (count > 0 && still->fd < 0)
        r = drop_at_rest(still, drops, count, err);
    /* One that runs is measured by whoever lists it. */
    if (count > 0 && r == 0 && still->fd < 0)
        workspaces_measure(still->service, &still->row, &(struct err){ 0 });
    if (still->fd < 0 || r < 0)
        return r;
    return is_fence(still) ? release_held(still, drops, count, err) : release_held(still, NULL, 0, err);
}

/* Its tree is not touched: processes have files of it open. What it has not seen of the project is merged when more of it is approved. */
int still_stand(struct still *still, const struct fence_revert *drops, size_t count, struct err *err)
{
    autofree const char **paths = list_paths(drops, count);
    int r = copy_delta_accept(still->dir_fd, paths, count, err);

    return r < 0 ? r : still_release(still, NULL, 0, err);
}

static int stand_on_parts(struct still *still, const struct approve *approve, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < approve->edits.count; i++) {
        const struct approve_file *file = &approve->files[i];
        if (file->outcome == APPROVE_PARTLY)
            r = copy_delta_accept_text(still->dir_fd, approve->edits.items[i].path,
                                       file->merge_base.data ? file->merge_base.data : "", file->merge_base.len,
                                       file->merge_base_mode, err);
    }
    return r;
}

int still_release_taken(struct still *still, const struct approve *approve, struct err *err)
{
    autofree struct fence_revert *drops = xalloc((approve->drop_count + 1) * sizeof(*drops));
    int r = still_is_copy(still) ? stand_on_parts(still, approve, err) : 0;

    if (fault_is("release-fails"))
        r = err_set(err, ERR_UNAVAILABLE, -EIO, "the sandbox does not answer");
    if (r < 0)
        return r;
    for (size_t i = 0; i < approve->drop_count; i++)
        drops[i] = (struct fence_revert){ .path = approve->drops[i], .replace_fd = -1 };
    if (still_can_drop(still))
        return still_release(still, drops, approve->drop_count, err);
    return still_is_copy(still) ? still_stand(still, drops, approve->drop_count, err) : still_release(still, NULL, 0, err);
}

int still_halt(struct still *still, struct err *err)
{
    int r;

    if (still->fd >= 0)
        release_held(still, NULL, 0, &(struct err){ 0 });
    if (sandbox_row_state(&still->row) != SANDBOX_STATE_ACTIVE)
        return 0;
    r = life_stop(still->service, NULL, still->ward, &still->row, err);
    if (r == 0)
        still->starts_again = false;
    return r;
}

static void start_again(struct still *still)
{
    struct err err = ERR_NONE;

    if (sandbox_row_state(&still->row) != SANDBOX_STATE_ACTIVE ||
        life_boot(still->service, still->ward, &still->row, -1, -1, &err) == 0)
        return;
    log_warn("a sandbox could not be started again after its review", LOG_STR("sandbox_id", still->row.id),
             LOG_STR("error", err.text));
    life_ended(still->service, still->ward, err.text);
}

void still_done(struct still *still)
{
    if (still->fd >= 0)
        release_held(still, NULL, 0, &(struct err){ 0 });
    if (still->starts_again)
        start_again(still);
    if (still->ward)
        life_release(still->ward);
    cleanup_fd(&still->dir_fd);
    free(still->delta_path);
    free(still->prefix);
    free(still->payload);
    codebase_close(still->codebase);
    free(still->message);
    free(still->by);
    sandbox_row_done(&still->row);
    *still = STILL_NONE;
}
