#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "fence/delta.h"
#include "sandbox/host_mount.h"
#include "sandbox/launch.h"
#include "service/adoption.h"
#include "service/life.h"
#include "service/watch.h"
#include "service/workspace_review_int.h"

#define BIT(name) SANDBOX_STATE_BIT(SANDBOX_STATE_##name)

/* Where it is wanted, and not there already: a server that was killed leaves it. */
static int show_on_host(struct service *service, const struct ward *ward, const struct sandbox_row *row, struct err *err)
{
    struct workspace_health health;
    char name[SANDBOX_NAME_MAX];
    autofd int dir_fd = -1;
    int r;

    if (!workspace_wants_host_mount(row))
        return 0;
    r = state_dir_find(&service->state_dir, ward->id, name, &dir_fd, err);
    if (r < 0 || host_mount_is_shown(dir_fd))
        return r;
    /* It writes its state file after it has told that it runs, and before it answers. */
    workspace_ask_supervisor(service, row->id, &health);
    return health.is_healthy ? host_mount_show(dir_fd, err) : err_set(err, ERR_UNAVAILABLE, -ENOTCONN, "%s", health.error);
}

int workspace_boot(struct service *service, struct ward *ward, const struct sandbox_row *row, int base_fd, int cancel_fd,
                   struct err *err)
{
    autodone(launch) struct launch launched = LAUNCH_NONE;
    struct launch_wait wait = { .within_ms = LAUNCH_MS, .cancel_fd = cancel_fd, .base_fd = base_fd };
    char name[SANDBOX_NAME_MAX];
    autofd int dir_fd = -1;
    int r = state_dir_find(&service->state_dir, ward->id, name, &dir_fd, err);

    if (r == 0)
        r = launch(&service->state_dir, ward->id, LAUNCH_DETACHED, &wait, &launched, err);
    if (r < 0)
        return r;
    /* A supervisor that was killed can hold its lock until just before the new one takes it. Its mount was then taken for one in use. */
    if (workspace_wants_host_mount(row))
        host_mount_hide(dir_fd);
    ward_set_running(ward, &launched.supervisor, steal_fd(&dir_fd), row->owner_id, "", false);
    r = watch_add(service, ward, steal_fd(&launched.ctl_fd), 0, err);
    if (r == 0)
        r = show_on_host(service, ward, row, err);
    if (r < 0)
        life_end(service, ward);
    return r;
}

int workspace_step(struct service *service, struct sandbox_row *row, unsigned from, int64_t version, enum sandbox_state to,
                   const char *reason, struct err *err)
{
    static const enum sandbox_status statuses[SANDBOX_STATE_COUNT] = {
        [SANDBOX_STATE_ACTIVE] = SANDBOX_STATUS_RUNNING,   [SANDBOX_STATE_STOPPED] = SANDBOX_STATUS_STOPPED,
        [SANDBOX_STATE_APPROVED] = SANDBOX_STATUS_STOPPED, [SANDBOX_STATE_REJECTED] = SANDBOX_STATUS_STOPPED,
        [SANDBOX_STATE_DELETED] = SANDBOX_STATUS_DELETED,  [SANDBOX_STATE_ERROR] = SANDBOX_STATUS_ERROR,
    };
    struct sandbox_move move = { .id = row->id,
                                 .from_states = from,
                                 .row_version = version,
                                 .to = statuses[to],
                                 .decides = to == SANDBOX_STATE_APPROVED || to == SANDBOX_STATE_REJECTED,
                                 .decision =
                                     to == SANDBOX_STATE_APPROVED ? SANDBOX_DECISION_APPROVED : SANDBOX_DECISION_REJECTED,
                                 .reason = reason,
                                 .now_ns = clock_wall_ns() };

    return sandbox_row_move(service->store, &move, row, err);
}

int workspace_check_version(const struct sandbox_row *row, int64_t version, struct err *err)
{
    if (!version || version == row->row_version)
        return 0;
    return err_set_reason(err,
                          err_set(err, ERR_ABORTED, -ESTALE, "sandbox %s was changed meanwhile (version %lld, now %lld)",
                                  row->id, (long long) version, (long long) row->row_version),
                          "VERSION_MISMATCH");
}

/* ---- with the lock ---- */

/* Who was killed while it started one leaves a supervisor that the row knows nothing of, and that holds its files. Nobody was told of it. */
void workspace_end_stray(struct service *service, struct ward *ward, const struct sandbox_row *row)
{
    struct adoption as = { .owner = row->owner_id, .codebase_id = "" };

    if (adoption_take(service, ward, &as, &(struct err){ 0 }) < 0)
        return;
    log_info("a sandbox that runs and should not is ended", LOG_STR("sandbox_id", row->id));
    life_end(service, ward);
}

/* That it ended could not be written at the time: whoever looks next must not meet one that neither runs nor can be started. */
static int note_end(struct service *service, struct ward *ward, struct sandbox_row *row, struct err *err)
{
    autoptr(ward) running =
                sandbox_row_state(row) == SANDBOX_STATE_ACTIVE ? ward_find_running(&service->wards, ward->id) : NULL;
    autofree char *id = NULL;

    if (sandbox_row_state(row) != SANDBOX_STATE_ACTIVE || running)
        return 0;
    workspace_ended(service, ward, "the sandbox ended, which could not be noted in that moment; it can be started again");
    id = xdup(row->id);
    sandbox_row_done(row);
    return sandbox_row_get(service->store, id, row, err);
}

int workspace_hold(struct service *service, const struct caller *caller, const char *id, struct ward **ret_ward,
                   struct sandbox_row *ret, struct err *err)
{
    /* Looked at before anything is locked: strangers' ids make no wards. */
    int r = workspaces_get(service, caller, id, ret, err);

    if (r < 0)
        return r;
    if (strcmp(ret->host_id, service->host_id) != 0) {
        err_set(err, ERR_FAILED_PRECONDITION, -EREMOTE, "sandbox %s lives on another host", id);
        return -EREMOTE;
    }
    struct ward *ward = ward_get(&service->wards, id);
    pthread_mutex_lock(&ward->life);
    sandbox_row_done(ret);
    r = sandbox_row_get(service->store, id, ret, err);
    if (r == 0)
        r = note_end(service, ward, ret, err);
    if (r < 0) {
        workspace_release(ward);
        return r;
    }
    *ret_ward = ward;
    return 0;
}

void workspace_release(struct ward *ward)
{
    pthread_mutex_unlock(&ward->life);
    ward_unref(ward);
}

int workspace_halt(struct service *service, struct ward *ward, struct sandbox_row *row, int64_t version, struct err *err)
{
    int r = workspace_check_version(row, version, err);

    if (r < 0)
        return r;
    if (sandbox_row_state(row) != SANDBOX_STATE_ACTIVE)
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "sandbox %s is %s, and cannot be stopped", row->id,
                                      sandbox_state_name(sandbox_row_state(row))),
                              "INVALID_STATE");
    life_end(service, ward);
    r = workspace_step(service, row, BIT(ACTIVE), 0, SANDBOX_STATE_STOPPED, NULL, err);
    if (r < 0)
        return r;
    workspaces_measure(service, row, &(struct err){ 0 });
    workspaces_totals(service)->stopped++;
    return 0;
}

/* ---- as they are called ---- */

int workspaces_stop(struct service *service, const struct caller *caller, const char *id, int64_t version,
                    struct sandbox_row *ret, struct err *err)
{
    struct ward *ward = NULL;
    int r = workspace_hold(service, caller, id, &ward, ret, err);

    if (r < 0)
        return r;
    if (sandbox_row_state(ret) == SANDBOX_STATE_STOPPED) {
        r = workspace_check_version(ret, version, err);
    } else {
        r = workspace_halt(service, ward, ret, version, err);
        if (r == 0)
            workspaces_tell(service, caller, ret, "workspace_stopped", NULL, NULL);
    }
    workspace_release(ward);
    return r;
}

/* The supervisor refuses as well; here it is told by a reason of its own. A delta that cannot be read is for the supervisor to tell. */
static int check_base(struct service *service, const struct sandbox_row *row, struct err *err)
{
    autofree char *delta_path = workspaces_path(service, row->id, "delta");
    struct delta_info about = DELTA_INFO_NONE;
    struct err ignored = ERR_NONE;
    int r = 0;

    if (delta_info_open(delta_path, &about, &ignored) < 0)
        return 0;
    autofd int fd = delta_info_open_base(&about, O_PATH, err);
    if (fd == -EXDEV)
        r = fd;
    delta_info_done(&about);
    return r;
}

static int start(struct service *service, const struct caller *caller, struct ward *ward, struct sandbox_row *row,
                 struct err *err)
{
    int r;

    if (sandbox_row_state(row) != SANDBOX_STATE_STOPPED)
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "sandbox %s is %s, and cannot be started", row->id,
                                      sandbox_state_name(sandbox_row_state(row))),
                              "INVALID_STATE");
    workspace_end_stray(service, ward, row);
    r = check_base(service, row, err);
    if (r < 0)
        return err_wrap(err, r, "failed to start sandbox %s", row->id);
    r = workspace_boot(service, ward, row, -1, caller->cancel_fd, err);
    if (r == 0)
        fault("workspace_started_unsaid");
    if (r < 0) {
        err_wrap(err, r, "failed to start sandbox %s", row->id);
        err->code = ERR_INTERNAL;
        return err_set_reason(err, r, "DRIVER_FAILED");
    }
    r = workspace_step(service, row, BIT(STOPPED), 0, SANDBOX_STATE_ACTIVE, NULL, err);
    if (r < 0)
        life_end(service, ward);
    else
        workspaces_tell(service, caller, row, "workspace_started", NULL, NULL);
    return r;
}

int workspaces_start(struct service *service, const struct caller *caller, const char *id, int64_t version,
                     struct sandbox_row *ret, struct err *err)
{
    struct ward *ward = NULL;
    int r = workspace_hold(service, caller, id, &ward, ret, err);

    if (r < 0)
        return r;
    r = workspace_check_version(ret, version, err);
    if (r == 0 && sandbox_row_state(ret) != SANDBOX_STATE_ACTIVE)
        r = start(service, caller, ward, ret, err);
    workspace_release(ward);
    return r;
}

/* ---- ends that nobody asked for ---- */

/* What was done in it is still there, and so is what it reserved: it can be started again. */
void workspace_ended(struct service *service, struct ward *ward, const char *reason)
{
    const struct caller nobody = { .owner = "", .is_admin = true, .cancel_fd = -1 };
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct err err = ERR_NONE;
    int r;

    state_dir_unmount_ended(&service->state_dir, ward->id);
    r = sandbox_row_get(service->store, ward->id, &row, &err);
    if (r == 0)
        r = workspace_step(service, &row, BIT(ACTIVE), 0, SANDBOX_STATE_STOPPED, reason, &err);
    if (r < 0) {
        log_error("the end of a sandbox could not be noted", LOG_STR("sandbox_id", ward->id), LOG_STR("error", err.text));
        return;
    }
    workspaces_measure(service, &row, &(struct err){ 0 });
    workspaces_totals(service)->errors++;
    workspaces_tell(service, &nobody, &row, "workspace_failed", NULL, json_pack("{s:s}", "reason", row.reason));
}

/* ---- what the last server left ---- */

/* Nobody was told of it. One over a directory stays as a record of what was asked for. */
static void undo_creation(struct service *service, struct ward *ward, struct sandbox_row *row)
{
    struct sandbox_move move = { .id = row->id,
                                 .from = SANDBOX_STATUS_BIT(SANDBOX_STATUS_CREATING),
                                 .to = SANDBOX_STATUS_DELETED,
                                 .reason = "the server ended while it was being made",
                                 .forgets_key = true,
                                 .forgets_name = true,
                                 .now_ns = clock_wall_ns() };
    struct err err = ERR_NONE;
    int r;

    workspace_end_stray(service, ward, row);
    state_dir_remove(&service->state_dir, ward->id, &err);
    err = ERR_NONE;
    r = sandbox_row_is_over_directory(row) ? sandbox_row_move(service->store, &move, row, &err)
                                           : sandbox_row_delete(service->store, row->id, &err);
    if (r < 0)
        log_warn("a half-made sandbox could not be taken back", LOG_STR("sandbox_id", row->id), LOG_STR("error", err.text));
    else
        log_info("half-made sandbox taken back", LOG_STR("sandbox_id", row->id));
}

static void revive(struct service *service, struct ward *ward, struct sandbox_row *row)
{
    struct adoption as = { .owner = row->owner_id, .codebase_id = "", .event_id = row->id, .since_ns = row->updated_ns };
    struct err err = ERR_NONE;

    if (adoption_take(service, ward, &as, &err) == 0) {
        log_info("sandbox adopted", LOG_STR("sandbox_id", row->id));
        if (show_on_host(service, ward, row, &err) < 0)
            log_warn("a sandbox's files are not mounted on the host", LOG_STR("sandbox_id", row->id),
                     LOG_STR("error", err.text));
        return;
    }
    err = ERR_NONE;
    if (workspace_boot(service, ward, row, -1, -1, &err) == 0) {
        log_info("sandbox started again", LOG_STR("sandbox_id", row->id));
        return;
    }
    autofree char *why = xprintf("it ended while no server was there, and does not start again: %s", err.text);
    workspace_step(service, row, BIT(ACTIVE), 0, SANDBOX_STATE_STOPPED, why, &(struct err){ 0 });
    log_warn("a sandbox could not be started again", LOG_STR("sandbox_id", row->id), LOG_STR("error", err.text));
}

static void recover_one(struct service *service, struct sandbox_row *row, void *cookie)
{
    (void) cookie;
    struct ward *ward = ward_get(&service->wards, row->id);
    pthread_mutex_lock(&ward->life);
    if (sandbox_row_state(row) == SANDBOX_STATE_CREATING)
        undo_creation(service, ward, row);
    else if (sandbox_row_is_over_directory(row))
        revive(service, ward, row);
    workspace_release(ward);
}

static int end_if_stray(const char *name, int dir_fd, void *cookie)
{
    struct service *service = cookie;
    autodone(sandbox_row) struct sandbox_row row = { 0 };

    if (!sandbox_id_is_valid(name) || !sandbox_dir_is_running(dir_fd) ||
        sandbox_row_get(service->store, name, &row, &(struct err){ 0 }) < 0 || !sandbox_row_is_over_directory(&row) ||
        sandbox_row_state(&row) == SANDBOX_STATE_ACTIVE)
        return 0;
    struct ward *ward = ward_get(&service->wards, name);
    pthread_mutex_lock(&ward->life);
    workspace_end_stray(service, ward, &row);
    workspace_release(ward);
    return 0;
}

int workspaces_recover(struct service *service, struct err *err)
{
    struct sandbox_filter filter = { .host_id = service->host_id, .states = BIT(CREATING) | BIT(ACTIVE) };
    int r = service_each_sandbox(service, &filter, recover_one, NULL, err);

    if (r == 0)
        r = state_dir_each(&service->state_dir, end_if_stray, service, err);
    if (r == 0)
        workspaces_recover_reviews(service);
    if (r == 0)
        workspaces_sweep(service);
    return r < 0 ? r : 0;
}
