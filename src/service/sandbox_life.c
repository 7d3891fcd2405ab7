#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "sandbox/launch.h"
#include "service/events.h"
#include "service/janitor.h"
#include "service/life.h"
#include "service/row_info.h"
#include "service/sandboxes.h"
#include "service/service_int.h"
#include "service/sync.h"
#include "service/watch.h"
#include "store/session_row.h"
#include "wire/ctl_client.h"
#include "wire/runtime_type.h"

#define GRACE_MS 2000
#define STOP_MS 30000
#define DESCRIPTOR_PAUSE_MS 50

static void tell(struct service *service, const struct sandbox_row *row, const char *type, json_t *payload)
{
    events_add(
        service,
        &(struct event){
            .type = type, .sandbox_id = row->id, .codebase_id = row->codebase_id, .owner = row->owner_id, .payload = payload });
}

int life_move(struct service *service, struct sandbox_row *row, unsigned from, enum sandbox_status to, const char *reason,
              struct err *err)
{
    struct sandbox_move move = { .id = row->id, .from = from, .to = to, .reason = reason, .now_ns = clock_wall_ns() };

    return sandbox_row_move(service->store, &move, row, err);
}

/* ---- start ---- */

/* Before a delta is mounted again: a sync that was killed may have moved some of it. */
static int settle(struct service *service, const char *codebase_id, struct err *err)
{
    autoptr(codebase) codebase = NULL;
    int r = codebase_open(service->codebases, codebase_id, &codebase, err);

    return r < 0 ? r : codebase_settle(codebase, err);
}

static int open_dir(struct service *service, const char *id, int *ret_fd, struct err *err)
{
    char name[SANDBOX_NAME_MAX];

    return state_dir_find(&service->state_dir, id, name, ret_fd, err);
}

/* The engine is the host's: where it is now, not where it was when the sandbox was made. */
static int renew_engine(struct service *service, const struct sandbox_row *row, int dir_fd, struct err *err)
{
    const struct container_options *ours = &service->options.container;
    autoptr(sandbox_spec) spec = NULL;
    int r;

    if (!runtime_type_of_number(row->runtime)->needs_image)
        return 0;
    r = sandbox_spec_load(dir_fd, &spec, err);
    if (r < 0 || (strcmp(spec->engine, ours->engine) == 0 && strcmp(spec->oci_runtime, ours->oci_runtime) == 0 &&
                  spec->no_pull == !ours->pulls))
        return r;
    free(spec->engine);
    spec->engine = xdup(ours->engine);
    free(spec->oci_runtime);
    spec->oci_runtime = xdup(ours->oci_runtime);
    spec->no_pull = !ours->pulls;
    return sandbox_spec_store(dir_fd, spec, true, err);
}

static void on_step(const char *text, void *cookie)
{
    struct ward *ward = cookie;

    log_info("sandbox is starting", LOG_STR("sandbox_id", ward->id), LOG_STR("step", text));
    ward_set_step(ward, text);
}

static int boot(struct service *service, struct ward *ward, struct sandbox_row *row, int cancel_fd, struct err *err)
{
    autodone(launch) struct launch launched = LAUNCH_NONE;
    bool is_container = runtime_type_of_number(row->runtime)->needs_image;
    struct launch_wait wait = {
        .within_ms = is_container ? LAUNCH_CONTAINER_MS : LAUNCH_MS, .cancel_fd = cancel_fd, .on_step = on_step, .cookie = ward
    };
    autofd int dir_fd = -1;
    int r = open_dir(service, row->id, &dir_fd, err);

    if (r == 0)
        r = renew_engine(service, row, dir_fd, err);
    if (r == 0)
        r = settle(service, row->codebase_id, err);
    if (r == 0)
        r = launch(&service->state_dir, row->id, LAUNCH_DETACHED, &wait, &launched, err);
    ward_set_step(ward, NULL);
    if (r < 0)
        return r;
    ward_set_running(ward, &launched.supervisor, steal_fd(&dir_fd), row->owner_id, row->codebase_id, row->sync_on_completion);
    r = watch_add(service, ward, steal_fd(&launched.ctl_fd), 0, err);
    if (r < 0)
        life_end(service, ward);
    return r;
}

/* The request was fine when it was made: what is in the way now is this host. */
static enum err_code code_of_failure(enum err_code code)
{
    switch (code) {
    case ERR_INVALID_ARGUMENT:
    case ERR_NOT_FOUND:
    case ERR_PERMISSION_DENIED:
    case ERR_FAILED_PRECONDITION:
        return ERR_FAILED_PRECONDITION;
    case ERR_RESOURCE_EXHAUSTED:
        return code;
    default:
        return ERR_INTERNAL;
    }
}

static int start(struct service *service, struct ward *ward, struct sandbox_row *row, int cancel_fd, struct err *err)
{
    unsigned from = SANDBOX_STATUS_BIT(SANDBOX_STATUS_PENDING) | SANDBOX_STATUS_BIT(SANDBOX_STATUS_STOPPED) |
                    SANDBOX_STATUS_BIT(SANDBOX_STATUS_ERROR);
    struct err ignored = ERR_NONE;
    int r;

    if (row->status == SANDBOX_STATUS_RUNNING)
        return err_set_reason(err, err_set(err, ERR_FAILED_PRECONDITION, -EALREADY, "sandbox is already running"),
                              "SANDBOX_ALREADY_RUNNING");
    if (row->status == SANDBOX_STATUS_DELETING)
        return refuse_sandbox(err);
    r = life_move(service, row, from, SANDBOX_STATUS_STARTING, NULL, err);
    if (r < 0)
        return r;
    r = boot(service, ward, row, cancel_fd, err);
    if (r < 0) {
        enum err_code code = code_of_failure(err->code);

        life_move(service, row, SANDBOX_STATUS_BIT(SANDBOX_STATUS_STARTING), SANDBOX_STATUS_ERROR, err->text, &ignored);
        tell(service, row, "sandbox_failed", json_pack("{s:s}", "reason", row->reason));
        err_wrap(err, r, "failed to start sandbox");
        err->code = r == -EINTR ? ERR_CANCELLED : code;
        return err_set_reason(err, r, "START_FAILED");
    }
    r = life_move(service, row, SANDBOX_STATUS_BIT(SANDBOX_STATUS_STARTING), SANDBOX_STATUS_RUNNING, NULL, err);
    if (r < 0)
        return r; /* it runs; whoever looks next, or the next start of the server, puts the row right */
    tell(service, row, "sandbox_started", json_object());
    return 0;
}

/* ---- stop ---- */

/* It does not listen. The connection tells its pid, which may be another's once it died: so the pid is pinned first, and only then
 * looked whether the connection still stands. */
static void kill_supervisor(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    autofd int pidfd = -1;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.pid <= 1)
        return;
    pidfd = (int) syscall(SYS_pidfd_open, peer.pid, 0);
    if (pidfd >= 0 && send(fd, "", 0, MSG_NOSIGNAL | MSG_DONTWAIT) == 0)
        syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

static void ask_to_stop(int fd, unsigned grace_ms)
{
    struct ctl_request request = { .type = CTL_REQUEST_STOP, .tag = 1, .stop = { .grace_ms = grace_ms } };
    int64_t until = clock_now_ns() + (STOP_MS + (int64_t) grace_ms) * CLOCK_NS_PER_MS;
    autofree char *payload = malloc(FRAME_PAYLOAD_MAX);
    struct err ignored = ERR_NONE;
    struct frame frame;
    int r = payload ? ctl_request_encode(&request, payload, FRAME_PAYLOAD_MAX, &frame) : -ENOMEM;

    if (r == 0)
        r = ctl_client_send(fd, &frame, STOP_MS, &ignored);
    while (r == 0) {
        int64_t left = (until - clock_now_ns()) / CLOCK_NS_PER_MS;
        struct ctl_reply reply;

        r = ctl_client_receive(fd, payload, left > 0 ? (int) left : 0, &frame, &reply);
        if (r == 0)
            frame_close_fds(&frame);
    }
    if (r == -ETIMEDOUT)
        kill_supervisor(fd);
}

/* Without a descriptor it would go on running, and nobody would know: one will be free again. */
static int take_fd_patiently(struct ward *ward, int *ret_fd)
{
    int64_t until = clock_now_ns() + STOP_MS * CLOCK_NS_PER_MS;
    struct err ignored = ERR_NONE;
    int r = ward_take_fd(ward, ret_fd, &ignored);

    while ((r == -EMFILE || r == -ENFILE) && clock_now_ns() < until) {
        poll(NULL, 0, DESCRIPTOR_PAUSE_MS);
        ignored = ERR_NONE;
        r = ward_take_fd(ward, ret_fd, &ignored);
    }
    return r;
}

void life_end(struct service *service, struct ward *ward)
{
    struct err err = ERR_NONE;
    autofd int fd = -1;

    if (take_fd_patiently(ward, &fd) == 0) {
        pthread_mutex_lock(&ward->lock);
        ward->is_stopping = true;
        pthread_mutex_unlock(&ward->lock);
        ask_to_stop(fd, GRACE_MS);
    }
    ward_end_running(ward);
    state_dir_unmount_ended(&service->state_dir, ward->id);
    err = ERR_NONE;
    if (session_row_close_all(service->store, ward->id, NULL, clock_wall_ns(), &err) < 0) {
        log_warn("sessions of a stopped sandbox could not be closed", LOG_STR("sandbox_id", ward->id),
                 LOG_STR("error", err.text));
        janitor_doubt(service);
    }
}

int life_stop(struct service *service, struct ward *ward, struct sandbox_row *row, struct err *err)
{
    struct err ignored = ERR_NONE;
    int r;

    if (row->status != SANDBOX_STATUS_RUNNING && row->status != SANDBOX_STATUS_STOPPING)
        return refuse_not_running(err);
    sync_now(service, ward, &ignored); /* what cannot be synced stays */
    r = life_move(service, row, SANDBOX_STATUS_BIT(SANDBOX_STATUS_RUNNING) | SANDBOX_STATUS_BIT(SANDBOX_STATUS_STOPPING),
                  SANDBOX_STATUS_STOPPING, NULL, err);
    if (r < 0)
        return r;
    life_end(service, ward);
    r = life_move(service, row, SANDBOX_STATUS_BIT(SANDBOX_STATUS_STOPPING), SANDBOX_STATUS_STOPPED, NULL, err);
    if (r == 0)
        tell(service, row, "sandbox_stopped", json_object());
    return r;
}

/* ---- removal ---- */

int life_destroy(struct service *service, struct ward *ward, struct sandbox_row *row, struct err *err)
{
    struct err ignored = ERR_NONE;
    int r = 0;

    if (row->status == SANDBOX_STATUS_RUNNING)
        sync_now(service, ward, &ignored);
    if (row->status != SANDBOX_STATUS_DELETING)
        r = life_move(service, row, SANDBOX_STATUS_ANY, SANDBOX_STATUS_DELETING, NULL, err);
    if (r < 0)
        return r;
    life_end(service, ward);
    r = state_dir_remove(&service->state_dir, row->id, err);
    if (r < 0 && r != -ENOENT)
        return err_wrap(err, r, "failed to destroy sandbox");
    r = sandbox_row_delete(service->store, row->id, err);
    if (r == 0)
        tell(service, row, "sandbox_destroyed", json_object());
    return r;
}

/* ---- as they are called ---- */

typedef int (*life_fn)(struct service *service, struct ward *ward, struct sandbox_row *row, int cancel_fd, struct err *err);

static int stop_step(struct service *service, struct ward *ward, struct sandbox_row *row, int cancel_fd, struct err *err)
{
    (void) cancel_fd;
    return life_stop(service, ward, row, err);
}

/* Whoever destroys what they are done with did not mean to give up work that has no room in the codebase right now. */
static int destroy_step(struct service *service, struct ward *ward, struct sandbox_row *row, int cancel_fd, struct err *err)
{
    struct err full = ERR_NONE;
    (void) cancel_fd;

    if (row->status == SANDBOX_STATUS_RUNNING && sync_now(service, ward, &full) < 0 && full.code == ERR_RESOURCE_EXHAUSTED)
        return err_set_reason(
            err,
            err_set(err, full.code, -ENOSPC,
                    "failed to destroy sandbox: its changes do not fit into the codebase, and 'force' gives them "
                    "up: %s",
                    full.text),
            "CHANGES_NOT_SYNCED");
    return life_destroy(service, ward, row, err);
}

static int destroy_by_force_step(struct service *service, struct ward *ward, struct sandbox_row *row, int cancel_fd,
                                 struct err *err)
{
    (void) cancel_fd;
    return life_destroy(service, ward, row, err);
}

static int step(struct service *service, const struct caller *caller, const char *id, life_fn fn, struct sandbox_info **ret,
                struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    autoptr(ward) ward = NULL;
    /* Looked at before anything is locked: strangers' ids make no wards. */
    int r = service_get_own_sandbox(service, caller, id, &row, err);

    if (r < 0)
        return r;
    ward = ward_get(&service->wards, row.id);
    pthread_mutex_lock(&ward->life);
    sandbox_row_done(&row);
    r = service_get_sandbox(service, caller, ward->id, &row, err);
    if (r == 0)
        r = fn(service, ward, &row, caller->cancel_fd, err);
    pthread_mutex_unlock(&ward->life);
    return r < 0 || !ret ? r : row_info_make(&row, ret, err);
}

int sandboxes_start(struct service *service, const struct caller *caller, const char *id, struct sandbox_info **ret,
                    struct err *err)
{
    return step(service, caller, id, start, ret, err);
}

int sandboxes_stop(struct service *service, const struct caller *caller, const char *id, struct sandbox_info **ret,
                   struct err *err)
{
    return step(service, caller, id, stop_step, ret, err);
}

int sandboxes_destroy(struct service *service, const struct caller *caller, const char *id, bool is_forced, struct err *err)
{
    return step(service, caller, id, is_forced ? destroy_by_force_step : destroy_step, NULL, err);
}
