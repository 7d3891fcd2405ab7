#include "service/adoption.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/hello.h"
#include "service/janitor.h"
#include "service/life.h"
#include "service/sandbox_care.h"
#include "service/sandbox_index.h"
#include "service/service_int.h"
#include "service/sync.h"
#include "service/watch.h"
#include "store/event_row.h"
#include "store/session_row.h"
#include "wire/ctl_client.h"

#define EVENTS_BACK 200

/* At a start all supervisors together get START_MS to answer. After that, and in every later round, each gets only BRIEF_MS. */
#define START_MS 3000
#define BRIEF_MS 500

/* For a call about a single sandbox. */
#define SINGLE_MS 10000
#define TRY_MS 2000

#define SILENT "the sandbox's supervisor does not answer; it is asked again and again"
#define CONNECT_PAUSE_MS 10

#define BIT(name) SANDBOX_STATUS_BIT(SANDBOX_STATUS_##name)
/* Sandboxes in other statuses are settled. Those in ERROR may have a supervisor that did not answer. */
#define UNSETTLED (BIT(CREATING) | BIT(STARTING) | BIT(RUNNING) | BIT(STOPPING) | BIT(DELETING) | BIT(ERROR))

struct round {
    struct service *service;
    int64_t patient_until_ns;
    bool is_first;
};

/* Returns the highest event number since the sandbox's last start that is in the store. */
static uint64_t last_event_of(struct service *service, const char *id, int64_t since_ns)
{
    struct event_filter filter = { .sandbox_id = id, .since_ns = since_ns, .newest_first = true };
    autodone(event_rows) struct event_rows rows = { 0 };
    struct err ignored = ERR_NONE;
    uint64_t last = 0;

    if (event_row_query(service->store, &filter, EVENTS_BACK, &rows, &ignored) < 0)
        return 0;
    for (size_t i = 0; i < rows.count; i++) {
        const char *number = strstr(rows.rows[i].payload, "\"event\":");
        uint64_t n = number ? strtoull(number + strlen("\"event\":"), NULL, 10) : 0;

        last = n > last ? n : last;
    }
    return last;
}

/* ---- connecting to supervisors ---- */

static int refuse_gone(struct err *err)
{
    return err_set(err, ERR_FAILED_PRECONDITION, -ENOTCONN, "the sandbox does not run");
}

/* A supervisor that is starting or ending holds its lock but does not listen. Soon it either listens or releases the lock. */
static int connect_patiently(int dir_fd, int timeout_ms, int *ret_fd, struct err *err)
{
    int64_t until_ns = clock_now_ns() + timeout_ms * CLOCK_NS_PER_MS;

    while (sandbox_dir_is_running(dir_fd)) {
        int r = ctl_client_connect(dir_fd, ret_fd, err);

        if ((r != -ENOENT && r != -ECONNREFUSED) || clock_now_ns() >= until_ns)
            return r;
        *err = ERR_NONE;
        poll(NULL, 0, CONNECT_PAUSE_MS);
    }
    return refuse_gone(err);
}

/* -ENOTCONN: it does not run, or is ending. Other errors: its supervisor lives, but does not answer. */
static int greet(int dir_fd, int connect_ms, int hello_ms, int *ret_fd, struct err *err)
{
    enum ctl_state state = CTL_STATE_RUNNING;
    autofd int fd = -1;
    int r = connect_patiently(dir_fd, connect_ms, &fd, err);

    if (r == 0)
        r = hello_await(fd, hello_ms, &state, err);
    if (r < 0 && r != -EPROTONOSUPPORT)
        return sandbox_dir_is_running(dir_fd) ? -EBUSY : -ENOTCONN;
    if (r < 0)
        return r;
    if (state != CTL_STATE_RUNNING)
        return refuse_gone(err);
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int take(struct service *service, struct sandbox_conn *conn, const struct sandbox_row *row, int connect_ms, int hello_ms,
                struct err *err)
{
    char name[SANDBOX_NAME_MAX];
    struct proc nobody = PROC_NONE;
    autofd int dir_fd = -1;
    autofd int fd = -1;
    int r = state_dir_find(&service->state_dir, conn->id, name, &dir_fd, err);

    if (r == 0)
        r = greet(dir_fd, connect_ms, hello_ms, &fd, err);
    if (r == -ENOTCONN)
        sandbox_dir_unmount_leftover(dir_fd);
    if (r < 0)
        return r;
    sandbox_conn_set_running(conn, &nobody, steal_fd(&dir_fd), row->owner_id, row->codebase_id, row->sync_on_completion);
    r = watch_add(service, conn, steal_fd(&fd), last_event_of(service, row->id, row->started_ns), err);
    if (r < 0) {
        sandbox_conn_end_running(conn);
        return r == -ENOTCONN || r == -ENOENT ? -EIO : r;
    }
    return 0;
}

int adoption_take(struct service *service, struct sandbox_conn *conn, const struct sandbox_row *row, struct err *err)
{
    return take(service, conn, row, SINGLE_MS, SINGLE_MS, err);
}

int adoption_try(struct service *service, struct sandbox_conn *conn, const struct sandbox_row *row, struct err *err)
{
    return take(service, conn, row, 0, TRY_MS, err);
}

static int patience_ms(const struct round *round)
{
    int64_t left = (round->patient_until_ns - clock_now_ns()) / CLOCK_NS_PER_MS;

    return left > BRIEF_MS ? (int) left : BRIEF_MS;
}

static int adopt(const struct round *round, struct sandbox_conn *conn, const struct sandbox_row *row, struct err *err)
{
    struct err unseen = ERR_NONE;
    int r = take(round->service, conn, row, patience_ms(round), patience_ms(round), err);

    if (r < 0)
        return r;
    /* Commands may have ended while no server was there. */
    sync_later(round->service, conn);
    log_info("sandbox adopted", LOG_STR("sandbox_id", row->id));
    if (life_show_on_host(round->service, conn, row, &unseen) < 0)
        log_warn("a sandbox's files are not mounted on the host", LOG_STR("sandbox_id", row->id),
                 LOG_STR("error", unseen.text));
    return 0;
}

/* ---- recording the result ---- */

static void tell(struct service *service, const struct sandbox_row *row, const char *type, const char *reason)
{
    sandbox_tell(service, &caller_system, row, type, NULL, json_pack("{s:s}", "reason", reason));
}

static const char *reason_of_end(const struct round *round, const struct sandbox_row *row)
{
    if (!round->is_first)
        return "the sandbox ended while the database was away";
    return row->status == SANDBOX_STATUS_STARTING ? "the server ended while the sandbox was starting"
                                                  : "the sandbox ended while no server was there";
}

/* Returns true if `agentfense run` or `stop` ended it while no server was there. */
static bool ended_well(struct service *service, const char *id)
{
    char found[SANDBOX_NAME_MAX];
    struct err ignored = ERR_NONE;
    autofd int dir_fd = -1;

    return state_dir_find(&service->state_dir, id, found, &dir_fd, &ignored) == 0 && sandbox_dir_ended_well(dir_fd);
}

static void note_end(const struct round *round, struct sandbox_row *row, const char *why, struct err *err)
{
    struct service *service = round->service;

    if (row->status == SANDBOX_STATUS_ERROR)
        return;
    if (row->status == SANDBOX_STATUS_STOPPING || (row->status == SANDBOX_STATUS_RUNNING && ended_well(service, row->id))) {
        life_note_stop(service, row, err);
        return;
    }
    if (session_row_close_all(service->store, row->id, NULL, clock_wall_ns(), err) < 0 ||
        life_move(service, row, 0, SANDBOX_STATUS_ERROR, why, err) < 0)
        janitor_doubt(service);
    tell(service, row, "sandbox_failed", why);
}

/* No client was told about it. The row of one over a directory stays as a record of the request. */
static void undo_creation(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, struct err *err)
{
    struct sandbox_move move = { .id = row->id,
                                 .from = BIT(CREATING),
                                 .to = SANDBOX_STATUS_DELETED,
                                 .reason = "the server ended while it was being made",
                                 .forgets_key = true,
                                 .forgets_name = true,
                                 .now_ns = clock_wall_ns() };
    struct err ignored = ERR_NONE;
    int r;

    life_end_stray(service, conn, row);
    state_dir_remove(&service->state_dir, conn->id, &ignored);
    r = sandbox_row_is_over_directory(row) ? sandbox_row_move(service->store, &move, row, err)
                                           : sandbox_row_delete(service->store, row->id, err);
    if (r < 0)
        log_warn("a half-made sandbox could not be taken back", LOG_STR("sandbox_id", conn->id), LOG_STR("error", err->text));
    else
        log_info("half-made sandbox taken back", LOG_STR("sandbox_id", conn->id));
}

/* Nobody can use it now, so its status becomes ERROR; but its processes go on, and its sessions stay open. */
static void note_silence(const struct round *round, struct sandbox_row *row, const char *why, struct err *err)
{
    const unsigned from = BIT(STARTING) | BIT(RUNNING);

    janitor_doubt(round->service);
    if (!(from & SANDBOX_STATUS_BIT((unsigned) row->status)))
        return;
    log_warn("a sandbox runs that cannot be adopted", LOG_STR("sandbox_id", row->id), LOG_STR("reason", why));
    *err = ERR_NONE;
    if (life_move(round->service, row, from, SANDBOX_STATUS_ERROR, why, err) == 0)
        tell(round->service, row, "sandbox_failed", why);
}

/* It ran before, and ended or is just ending while no server was there. Its changes are still there. */
static void start_again(const struct round *round, struct sandbox_conn *conn, struct sandbox_row *row, struct err *err)
{
    autofree char *why = NULL;
    int r = life_move(round->service, row, BIT(RUNNING), SANDBOX_STATUS_STARTING, NULL, err);

    if (r == 0)
        r = session_row_close_all(round->service->store, row->id, NULL, clock_wall_ns(), err);
    if (r >= 0)
        r = life_boot(round->service, conn, row, -1, -1, err);
    if (r == 0) {
        log_info("sandbox started again", LOG_STR("sandbox_id", row->id));
        life_move(round->service, row, BIT(STARTING), SANDBOX_STATUS_RUNNING, NULL, err);
        return;
    }
    if (state_dir_is_running(&round->service->state_dir, row->id)) {
        note_silence(round, row, SILENT, err);
        return;
    }
    log_warn("a sandbox could not be started again", LOG_STR("sandbox_id", row->id), LOG_STR("error", err->text));
    why = xprintf("it ended while no server was there, and does not start again: %s", err->text);
    *err = ERR_NONE;
    note_end(round, row, why, err);
}

static void note_running(const struct round *round, struct sandbox_conn *conn, struct sandbox_row *row, struct err *err)
{
    const unsigned from = BIT(STARTING) | BIT(ERROR);
    bool was_lost = row->status == SANDBOX_STATUS_ERROR;

    if (row->status == SANDBOX_STATUS_STOPPING)
        life_stop(round->service, &caller_system, conn, row, err);
    else if (row->status != SANDBOX_STATUS_RUNNING &&
             life_move(round->service, row, from, SANDBOX_STATUS_RUNNING, NULL, err) == 0 && was_lost)
        tell(round->service, row, "sandbox_recovered", "the sandbox's supervisor answers again");
}

/* ---- all sandboxes ---- */

static void look_at(const struct round *round, struct sandbox_conn *conn, struct sandbox_row *row)
{
    struct service *service = round->service;
    struct err err = ERR_NONE;

    if (row->status == SANDBOX_STATUS_CREATING) {
        undo_creation(service, conn, row, &err);
        return;
    }
    autoptr(sandbox_conn) running = sandbox_conn_find_running(&service->conns, row->id);
    int r = running ? 0 : adopt(round, conn, row, &err);

    autofree char *why = xdup(r == -EPROTONOSUPPORT ? err.text : SILENT);

    err = ERR_NONE;
    if (row->status == SANDBOX_STATUS_DELETING) {
        if (life_delete(service, conn, row, true, &err) < 0)
            log_warn("a sandbox could not be removed", LOG_STR("sandbox_id", conn->id), LOG_STR("error", err.text));
        else
            sandbox_tell(service, &caller_system, row, "sandbox_destroyed", NULL, NULL);
    } else if (r == 0) {
        note_running(round, conn, row, &err);
    } else if (r != -EPROTONOSUPPORT && round->is_first && row->restarts && row->status == SANDBOX_STATUS_RUNNING) {
        start_again(round, conn, row, &err);
    } else if (r == -ENOTCONN || r == -ENOENT) {
        note_end(round, row, reason_of_end(round, row), &err);
    } else {
        note_silence(round, row, why, &err);
    }
    if (r < 0)
        sandbox_index_settle(service, conn, row, &err); /* its directory may be missing, too */
}

int adoption_settle(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, struct err *err)
{
    struct round round = { .service = service, .patient_until_ns = clock_now_ns() + SINGLE_MS * CLOCK_NS_PER_MS };

    if (!((BIT(STARTING) | BIT(STOPPING)) & SANDBOX_STATUS_BIT((unsigned) row->status)))
        return 0;
    look_at(&round, conn, row);
    sandbox_row_done(row);
    return sandbox_row_get(service->store, conn->id, row, err);
}

/* Returns true if there is nothing to check: most failed sandboxes have no supervisor, and most running ones are adopted. */
static bool is_plain(const struct round *round, const struct sandbox_row *row)
{
    autoptr(sandbox_conn) running = sandbox_conn_find_running(&round->service->conns, row->id);

    if (row->status == SANDBOX_STATUS_ERROR)
        return sandbox_row_state(row) == SANDBOX_STATE_ERROR || !state_dir_is_running(&round->service->state_dir, row->id);
    return running && row->status == SANDBOX_STATUS_RUNNING;
}

/* If another call works with the sandbox, it holds `life` and will write the result: skip it. */
static void take_up(const struct round *round, const struct sandbox_row *listed)
{
    struct service *service = round->service;
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    autoptr(sandbox_conn) conn = NULL;
    struct err err = ERR_NONE;

    if (is_plain(round, listed))
        return;
    conn = sandbox_conn_get(&service->conns, listed->id);
    if (pthread_mutex_trylock(&conn->life) != 0)
        return;
    /* It may have ended since it was listed, and that may have been written. */
    if (sandbox_row_get(service->store, listed->id, &row, &err) == 0 && UNSETTLED & SANDBOX_STATUS_BIT((unsigned) row.status) &&
        !is_plain(round, &row))
        look_at(round, conn, &row);
    pthread_mutex_unlock(&conn->life);
}

static void take_up_listed(struct service *service, struct sandbox_row *row, void *cookie)
{
    (void) service;
    take_up(cookie, row);
}

static int go_through(struct round *round, struct err *err)
{
    struct sandbox_filter filter = {
        .host_id = round->service->host_id,
        .statuses = UNSETTLED,
    };

    return service_each_sandbox(round->service, &filter, take_up_listed, round, err);
}

/* Ends the supervisor of a deleted sandbox: no client was told about its start. */
static int end_if_stray(const char *name, int dir_fd, void *cookie)
{
    struct service *service = cookie;
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct err ignored = ERR_NONE;

    if (!sandbox_id_is_valid(name) || !sandbox_dir_is_running(dir_fd) ||
        sandbox_row_get(service->store, name, &row, &ignored) < 0 || row.status != SANDBOX_STATUS_DELETED)
        return 0;
    struct sandbox_conn *conn = sandbox_conn_get(&service->conns, name);
    pthread_mutex_lock(&conn->life);
    life_end_stray(service, conn, &row);
    life_release(conn);
    return 0;
}

int adoption_run(struct service *service, struct err *err)
{
    struct round round = { .service = service,
                           .patient_until_ns = clock_now_ns() + START_MS * CLOCK_NS_PER_MS,
                           .is_first = true };
    int r = go_through(&round, err);

    return r < 0 ? r : state_dir_each(&service->state_dir, end_if_stray, service, err);
}

void adoption_reconcile(struct service *service)
{
    struct round round = { .service = service };
    struct err ignored = ERR_NONE;

    if (go_through(&round, &ignored) < 0)
        janitor_doubt(service);
}
