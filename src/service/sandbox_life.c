#include "service/life.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/delta.h"
#include "sandbox/host_mount.h"
#include "sandbox/launch.h"
#include "service/adoption.h"
#include "service/events.h"
#include "service/janitor.h"
#include "service/sandbox_index.h"
#include "service/sandbox_tend.h"
#include "service/service_int.h"
#include "service/sync.h"
#include "service/watch.h"
#include "store/session_row.h"
#include "wire/ctl_client.h"
#include "wire/runtime_type.h"

#define GRACE_MS 2000
#define STOP_MS 30000
#define DESCRIPTOR_PAUSE_MS 50
#define LOCK_WAIT_MS 2000
#define LOCK_PAUSE_MS 20
#define BIT(name) SANDBOX_STATUS_BIT(SANDBOX_STATUS_##name)

/* ---- locking ---- */

/* If the sandbox's end could not be written at the time, write it now: otherwise the caller would find one that neither runs nor can be
 * started. */
static int note_end(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, struct err *err)
{
    autoptr(sandbox_conn) running =
                row->status == SANDBOX_STATUS_RUNNING ? sandbox_conn_find_running(&service->conns, conn->id) : NULL;

    if (row->status != SANDBOX_STATUS_RUNNING || running)
        return 0;
    life_ended(service, conn, "the sandbox ended, which could not be noted in that moment; it can be started again");
    sandbox_row_done(row);
    return sandbox_row_get(service->store, conn->id, row, err);
}

static bool is_directory(const struct service *service, const char *id)
{
    struct stat st;

    return fstatat(service->state_dir.sandboxes_fd, id, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* A sandbox whose spec cannot be read may still be looked at and removed. One that must not be trusted is left alone. -ENOENT: it is gone. */
static int settle_index(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, struct err *err)
{
    int r = sandbox_index_settle(service, conn, row, err);

    if (r == -EPERM && is_directory(service, conn->id))
        return r;
    *err = ERR_NONE;
    return row->id ? 0 : -ENOENT;
}

int life_hold(struct service *service, const struct caller *caller, const char *id, struct sandbox_conn **ret_conn,
              struct sandbox_row *ret, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct sandbox_conn *conn;
    /* Check the id before locking anything, so that made-up ids create no conns. */
    int r = service_find_own_sandbox(service, caller, id, &row, err);

    if (r < 0)
        return r;
    conn = sandbox_conn_get(&service->conns, row.id);
    pthread_mutex_lock(&conn->life);
    sandbox_row_done(&row);
    r = sandbox_row_get(service->store, conn->id, &row, err);
    if (r == 0)
        r = settle_index(service, conn, &row, err);
    if (r == -ENOENT)
        r = refuse_sandbox(err);
    if (r == 0)
        r = adoption_settle(service, conn, &row, err);
    if (r == 0)
        r = note_end(service, conn, &row, err);
    if (r < 0) {
        life_release(conn);
        return r;
    }
    *ret_conn = conn;
    *ret = row;
    row = (struct sandbox_row){ 0 };
    return 0;
}

void life_release(struct sandbox_conn *conn)
{
    pthread_mutex_unlock(&conn->life);
    sandbox_conn_unref(conn);
}

int life_lock_dir(const struct service *service, const char *id, int *ret_lock_fd, struct err *err)
{
    int64_t until_ns = clock_now_ns() + LOCK_WAIT_MS * CLOCK_NS_PER_MS;
    autofd int dir_fd = path_open_beneath(service->state_dir.sandboxes_fd, id, O_RDONLY | O_DIRECTORY, 0);
    int r;

    *ret_lock_fd = -1;
    if (dir_fd < 0)
        return 0;
    while ((r = sandbox_dir_lock(dir_fd, ret_lock_fd)) == -EBUSY && clock_now_ns() < until_ns)
        poll(NULL, 0, LOCK_PAUSE_MS);
    if (r == -EBUSY)
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, r,
                                      "sandbox %s is in use: 'agentfense run' or another command of this host works with it; "
                                      "wait for that, or end it with 'agentfense stop %s'",
                                      id, id),
                              "SANDBOX_IN_USE");
    return r < 0 ? err_errno(err, r, "locking sandbox %s", id) : 0;
}

/* ---- steps ---- */

int life_move(struct service *service, struct sandbox_row *row, unsigned from, enum sandbox_status to, const char *reason,
              struct err *err)
{
    struct sandbox_move move = { .id = row->id, .from = from, .to = to, .reason = reason, .now_ns = clock_wall_ns() };

    return sandbox_row_move(service->store, &move, row, err);
}

int life_decide(struct service *service, struct sandbox_row *row, enum sandbox_decision decision, struct err *err)
{
    struct sandbox_move move = { .id = row->id,
                                 .from = BIT(PENDING) | BIT(STOPPED) | BIT(ERROR),
                                 .to = SANDBOX_STATUS_STOPPED,
                                 .decides = true,
                                 .decision = decision,
                                 .now_ns = clock_wall_ns() };

    int r = move.from & SANDBOX_STATUS_BIT((unsigned) row->status)
                ? sandbox_index_note(service, row->id, (int) decision, false, err)
                : 0;

    return r < 0 ? r : sandbox_row_move(service->store, &move, row, err);
}

int life_check_version(const struct sandbox_row *row, int64_t version, struct err *err)
{
    if (!version || version == row->row_version)
        return 0;
    return err_set_reason(err,
                          err_set(err, ERR_ABORTED, -ESTALE, "sandbox %s was changed meanwhile (version %lld, now %lld)",
                                  row->id, (long long) version, (long long) row->row_version),
                          "VERSION_MISMATCH");
}

int life_refuse_state(const struct sandbox_row *row, const char *verbed, struct err *err)
{
    return err_set_reason(err,
                          err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "sandbox %s is %s, and cannot be %s", row->id,
                                  sandbox_state_name(sandbox_row_state(row)), verbed),
                          "INVALID_STATE");
}

/* ---- start ---- */

/* Before the delta is mounted again: a sync that was killed may have moved some of it. */
static int settle(struct service *service, const char *codebase_id, struct err *err)
{
    autoptr(codebase) codebase = NULL;
    int r = codebase_open(service->codebases, codebase_id, &codebase, err);

    return r < 0 ? r : codebase_settle(codebase, err);
}

/* The container engine belongs to the host: use its current address, not the one from the sandbox's creation. */
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

int life_show_on_host(struct service *service, const struct sandbox_conn *conn, const struct sandbox_row *row, struct err *err)
{
    struct sandbox_health health;
    char name[SANDBOX_NAME_MAX];
    autofd int dir_fd = -1;
    int r;

    if (!sandbox_wants_host_mount(row))
        return 0;
    r = state_dir_find(&service->state_dir, conn->id, name, &dir_fd, err);
    if (r < 0 || host_mount_is_shown(dir_fd))
        return r;
    /* The supervisor writes its state file after it has reported that it runs, and before it answers. */
    sandbox_ask_supervisor(service, row->id, &health);
    return health.is_healthy ? host_mount_show(dir_fd, err) : err_set(err, ERR_UNAVAILABLE, -ENOTCONN, "%s", health.error);
}

static void on_step(const char *text, void *cookie)
{
    struct sandbox_conn *conn = cookie;

    log_info("sandbox is starting", LOG_STR("sandbox_id", conn->id), LOG_STR("step", text));
    sandbox_conn_set_step(conn, text);
}

int life_boot(struct service *service, struct sandbox_conn *conn, const struct sandbox_row *row, int base_fd, int cancel_fd,
              struct err *err)
{
    autodone(launch) struct launch launched = LAUNCH_NONE;
    bool is_container = runtime_type_of_number(row->runtime)->needs_image;
    struct launch_wait wait = { .within_ms = is_container ? LAUNCH_CONTAINER_MS : LAUNCH_MS,
                                .cancel_fd = cancel_fd,
                                .base_fd = base_fd,
                                .on_step = on_step,
                                .cookie = conn };
    char name[SANDBOX_NAME_MAX];
    autofd int dir_fd = -1;
    int r = state_dir_find(&service->state_dir, row->id, name, &dir_fd, err);

    if (r == 0)
        r = renew_engine(service, row, dir_fd, err);
    if (r == 0 && !sandbox_row_is_over_directory(row))
        r = settle(service, row->codebase_id, err);
    if (r == 0)
        r = launch(&service->state_dir, row->id, LAUNCH_DETACHED, &wait, &launched, err);
    sandbox_conn_set_step(conn, NULL);
    if (r < 0)
        return r;
    /* A supervisor that was killed can hold its lock until just before the new one takes it. Then its mount looked as if it were in use,
     * and was not removed. */
    if (sandbox_wants_host_mount(row))
        host_mount_hide(dir_fd);
    sandbox_conn_set_running(conn, &launched.supervisor, steal_fd(&dir_fd), row->owner_id, row->codebase_id,
                             row->sync_on_completion);
    r = watch_add(service, conn, steal_fd(&launched.ctl_fd), 0, err);
    if (r == 0)
        r = life_show_on_host(service, conn, row, err);
    if (r < 0)
        life_end(service, conn);
    return r;
}

/* The request was valid when the sandbox was made, so the cause is now on this host. */
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

/* The supervisor refuses as well, but here the error gets its own reason. The supervisor reports an unreadable delta. */
static int check_base(struct service *service, const struct sandbox_row *row, struct err *err)
{
    autofree char *delta_path = sandboxes_path(service, row->id, "delta");
    struct delta_info about = DELTA_INFO_NONE;
    struct err ignored = ERR_NONE;
    int r = 0;

    if (!sandbox_row_is_over_directory(row) || delta_info_open(delta_path, &about, &ignored) < 0)
        return 0;
    autofd int fd = delta_info_open_base(&about, O_PATH, err);
    if (fd == -EXDEV)
        r = fd;
    delta_info_done(&about);
    return r < 0 ? err_wrap(err, r, "failed to start sandbox %s", row->id) : 0;
}

int life_start(struct service *service, const struct caller *caller, struct sandbox_conn *conn, struct sandbox_row *row,
               struct err *err)
{
    struct sandbox_move move = { .id = row->id,
                                 .from = BIT(PENDING) | BIT(STOPPED) | BIT(ERROR),
                                 .to = SANDBOX_STATUS_STARTING,
                                 .decides = true,
                                 .decision = SANDBOX_DECISION_OPEN,
                                 .now_ns = clock_wall_ns() };
    struct err ignored = ERR_NONE;
    int r;

    r = check_base(service, row, err);
    if (r == 0)
        r = sandbox_row_move(service->store, &move, row, err);
    if (r < 0)
        return r;
    r = life_boot(service, conn, row, -1, caller->cancel_fd, err);
    if (r < 0) {
        enum err_code code = code_of_failure(err->code);

        life_move(service, row, BIT(STARTING), SANDBOX_STATUS_ERROR, err->text, &ignored);
        sandbox_tell(service, caller, row, "sandbox_failed", NULL, json_pack("{s:s}", "reason", row->reason));
        err_wrap(err, r, "failed to start sandbox");
        err->code = r == -EINTR ? ERR_CANCELLED : code;
        return err_set_reason(err, r, "START_FAILED");
    }
    fault("sandbox_started_unsaid");
    r = life_move(service, row, BIT(STARTING), SANDBOX_STATUS_RUNNING, NULL, err);
    if (r < 0)
        return r; /* it runs; the next call, or the next start of the server, corrects the row */
    sandbox_tell(service, caller, row, "sandbox_started", NULL, NULL);
    return 0;
}

/* ---- stop ---- */

/* Kills a supervisor that does not answer. The connection has its pid, but after its death another process may get that pid. So open a
 * pidfd first, and only then check that the connection still exists. */
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

/* Without a free descriptor the sandbox would go on running unnoticed. Wait for one. */
static int take_fd_patiently(struct sandbox_conn *conn, int *ret_fd)
{
    int64_t until = clock_now_ns() + STOP_MS * CLOCK_NS_PER_MS;
    struct err ignored = ERR_NONE;
    int r = sandbox_conn_take_fd(conn, ret_fd, &ignored);

    while ((r == -EMFILE || r == -ENFILE) && clock_now_ns() < until) {
        poll(NULL, 0, DESCRIPTOR_PAUSE_MS);
        ignored = ERR_NONE;
        r = sandbox_conn_take_fd(conn, ret_fd, &ignored);
    }
    return r;
}

static void close_sessions(struct service *service, const struct sandbox_conn *conn)
{
    struct err err = ERR_NONE;

    if (session_row_close_all(service->store, conn->id, NULL, clock_wall_ns(), &err) >= 0)
        return;
    log_warn("sessions of a stopped sandbox could not be closed", LOG_STR("sandbox_id", conn->id), LOG_STR("error", err.text));
    janitor_doubt(service);
}

void life_end(struct service *service, struct sandbox_conn *conn)
{
    autofd int fd = -1;

    if (take_fd_patiently(conn, &fd) == 0) {
        pthread_mutex_lock(&conn->lock);
        conn->is_stopping = true;
        pthread_mutex_unlock(&conn->lock);
        ask_to_stop(fd, GRACE_MS);
    }
    sandbox_conn_end_running(conn);
    state_dir_unmount_ended(&service->state_dir, conn->id);
    close_sessions(service, conn);
}

void life_end_stray(struct service *service, struct sandbox_conn *conn, const struct sandbox_row *row)
{
    struct err ignored = ERR_NONE;

    if (adoption_take(service, conn, row, &ignored) < 0)
        return;
    log_info("a sandbox that runs and should not is ended", LOG_STR("sandbox_id", row->id));
    life_end(service, conn);
}

/* A sandbox that syncs keeps no changes, so it needs no measuring. */
static void measure(struct service *service, struct sandbox_row *row)
{
    struct err ignored = ERR_NONE;

    if (!row->sync_on_completion)
        sandboxes_measure(service, row, &ignored);
}

int life_stop(struct service *service, const struct caller *caller, struct sandbox_conn *conn, struct sandbox_row *row,
              struct err *err)
{
    struct err ignored = ERR_NONE;
    int r;

    if (row->status != SANDBOX_STATUS_RUNNING && row->status != SANDBOX_STATUS_STOPPING)
        return refuse_not_running(err);
    sync_now(service, conn, &ignored); /* changes that cannot be synced stay */
    r = life_move(service, row, BIT(RUNNING) | BIT(STOPPING), SANDBOX_STATUS_STOPPING, NULL, err);
    if (r < 0)
        return r;
    fault("sandbox_stopping");
    life_end(service, conn);
    r = life_move(service, row, BIT(STOPPING), SANDBOX_STATUS_STOPPED, NULL, err);
    if (r < 0)
        return r;
    measure(service, row);
    sandboxes_totals(service)->stopped++;
    if (caller)
        sandbox_tell(service, caller, row, "sandbox_stopped", NULL, NULL);
    return 0;
}

/* ---- ends that this server did not request ---- */

int life_note_stop(struct service *service, struct sandbox_row *row, struct err *err)
{
    int r =
        row->status == SANDBOX_STATUS_STOPPING ? 0 : life_move(service, row, BIT(RUNNING), SANDBOX_STATUS_STOPPING, NULL, err);

    return r < 0 ? r : life_move(service, row, BIT(STOPPING), SANDBOX_STATUS_STOPPED, NULL, err);
}

/* Its changes and its reservations stay: it can be started again. */
void life_ended(struct service *service, struct sandbox_conn *conn, const char *reason)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct err err = ERR_NONE;
    int r;

    state_dir_unmount_ended(&service->state_dir, conn->id);
    close_sessions(service, conn);
    r = sandbox_row_get(service->store, conn->id, &row, &err);
    if (r == 0)
        r = reason ? life_move(service, &row, BIT(RUNNING), SANDBOX_STATUS_ERROR, reason, &err)
                   : life_note_stop(service, &row, &err);
    if (r < 0) {
        log_error("the end of a sandbox could not be noted", LOG_STR("sandbox_id", conn->id), LOG_STR("error", err.text));
        janitor_doubt(service);
        return;
    }
    measure(service, &row);
    if (!reason) {
        sandbox_tell(service, &caller_system, &row, "sandbox_stopped", NULL, NULL);
        return;
    }
    sandboxes_totals(service)->errors++;
    sandbox_tell(service, &caller_system, &row, "sandbox_failed", NULL, json_pack("{s:s}", "reason", row.reason));
}

/* ---- calls ---- */

int sandboxes_start(struct service *service, const struct caller *caller, const char *id, const struct sandbox_step *step,
                    struct sandbox_row *ret, struct err *err)
{
    struct sandbox_conn *conn = NULL;
    int r = life_hold(service, caller, id, &conn, ret, err);

    if (r < 0)
        return r;
    unsigned state = SANDBOX_STATE_BIT(sandbox_row_state(ret));

    r = life_check_version(ret, step->version, err);
    if (r == 0 && state & SANDBOX_STATE_BIT(SANDBOX_STATE_ACTIVE)) {
        if (!step->may_be_so)
            r = err_set_reason(err, err_set(err, ERR_FAILED_PRECONDITION, -EALREADY, "sandbox is already running"),
                               "SANDBOX_ALREADY_RUNNING");
    } else if (r == 0 && state & SANDBOX_STATE_BIT(SANDBOX_STATE_DELETED) && !step->may_be_so) {
        r = refuse_sandbox(err);
    } else if (r == 0) {
        r = state & step->states ? life_start(service, caller, conn, ret, err) : life_refuse_state(ret, "started", err);
    }
    life_release(conn);
    return r;
}

int sandboxes_stop(struct service *service, const struct caller *caller, const char *id, const struct sandbox_step *step,
                   struct sandbox_row *ret, struct err *err)
{
    struct sandbox_conn *conn = NULL;
    int r = life_hold(service, caller, id, &conn, ret, err);

    if (r < 0)
        return r;
    enum sandbox_state state = sandbox_row_state(ret);

    r = life_check_version(ret, step->version, err);
    if (r == 0 && state == SANDBOX_STATE_ACTIVE)
        r = life_stop(service, caller, conn, ret, err);
    else if (r == 0 && !step->may_be_so)
        r = state == SANDBOX_STATE_DELETED ? refuse_sandbox(err) : refuse_not_running(err);
    else if (r == 0 && state != SANDBOX_STATE_STOPPED)
        r = life_refuse_state(ret, "stopped", err);
    life_release(conn);
    return r;
}
