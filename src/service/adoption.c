#include "service/adoption.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/events.h"
#include "service/greeting.h"
#include "service/janitor.h"
#include "service/life.h"
#include "service/service_int.h"
#include "service/sync.h"
#include "service/watch.h"
#include "store/event_row.h"
#include "store/session_row.h"
#include "wire/ctl_client.h"

#define EVENTS_BACK 200

/* All who are asked at a start have so much time together; whoever comes after that is asked so briefly, as in every later round. */
#define START_MS 3000
#define BRIEF_MS 500

/* Who is asked for one sandbox alone waits for longer. */
#define SINGLE_MS 10000

#define ACTIVE                                                                                                                 \
    (SANDBOX_STATUS_BIT(SANDBOX_STATUS_STARTING) | SANDBOX_STATUS_BIT(SANDBOX_STATUS_RUNNING) |                                \
     SANDBOX_STATUS_BIT(SANDBOX_STATUS_STOPPING) | SANDBOX_STATUS_BIT(SANDBOX_STATUS_DELETING))

struct round {
    struct service *service;
    int64_t patient_until_ns;
    bool is_first;
};

/* The number of the last event of its present life that the store has. */
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

/* ---- asking ---- */

static int refuse_gone(struct err *err)
{
    return err_set(err, ERR_FAILED_PRECONDITION, -ENOTCONN, "the sandbox does not run");
}

/* -ENOTCONN: it does not run, or ends. Otherwise somebody has it, and does not answer. */
static int greet(int dir_fd, int timeout_ms, int *ret_fd, struct err *err)
{
    enum ctl_state state = CTL_STATE_RUNNING;
    autofd int fd = -1;
    int r = sandbox_dir_is_running(dir_fd) ? ctl_client_connect(dir_fd, &fd, err) : refuse_gone(err);

    if (r == 0)
        r = greeting_await(fd, timeout_ms, &state, err);
    if (r < 0)
        return sandbox_dir_is_running(dir_fd) ? -EBUSY : -ENOTCONN;
    if (state != CTL_STATE_RUNNING)
        return refuse_gone(err);
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int take(struct service *service, struct ward *ward, const struct adoption *as, int timeout_ms, struct err *err)
{
    char name[SANDBOX_NAME_MAX];
    struct proc nobody = PROC_NONE;
    autofd int dir_fd = -1;
    autofd int fd = -1;
    int r = state_dir_find(&service->state_dir, ward->id, name, &dir_fd, err);

    if (r == 0)
        r = greet(dir_fd, timeout_ms, &fd, err);
    if (r == -ENOTCONN)
        sandbox_dir_unmount_leftover(dir_fd);
    if (r < 0)
        return r;
    ward_set_running(ward, &nobody, steal_fd(&dir_fd), as->owner, as->codebase_id, as->syncs);
    uint64_t last = as->event_id ? last_event_of(service, as->event_id, as->since_ns) : 0;
    r = watch_add(service, ward, steal_fd(&fd), last, err);
    if (r < 0) {
        ward_end_running(ward);
        return r == -ENOTCONN || r == -ENOENT ? -EIO : r;
    }
    return 0;
}

int adoption_take(struct service *service, struct ward *ward, const struct adoption *as, struct err *err)
{
    return take(service, ward, as, SINGLE_MS, err);
}

static int patience_ms(const struct round *round)
{
    int64_t left = (round->patient_until_ns - clock_now_ns()) / CLOCK_NS_PER_MS;

    return left > BRIEF_MS ? (int) left : BRIEF_MS;
}

static int adopt(const struct round *round, struct ward *ward, const struct sandbox_row *row, struct err *err)
{
    struct adoption as = { .owner = row->owner_id,
                           .codebase_id = row->codebase_id,
                           .syncs = row->sync_on_completion,
                           .event_id = row->id,
                           .since_ns = row->started_ns };
    int r = take(round->service, ward, &as, patience_ms(round), err);

    if (r < 0)
        return r;
    /* What ended while nobody was there. */
    sync_later(round->service, ward);
    log_info("sandbox adopted", LOG_STR("sandbox_id", row->id));
    return 0;
}

/* ---- noting what was found ---- */

static void tell(struct service *service, const struct sandbox_row *row, const char *type, const char *reason)
{
    events_add(service, &(struct event){ .type = type,
                                         .sandbox_id = row->id,
                                         .codebase_id = row->codebase_id,
                                         .owner = row->owner_id,
                                         .payload = json_pack("{s:s}", "reason", reason) });
}

static const char *reason_of_end(const struct round *round, const struct sandbox_row *row)
{
    if (!round->is_first)
        return "the sandbox ended while the database was away";
    return row->status == SANDBOX_STATUS_STARTING ? "the server ended while the sandbox was starting"
                                                  : "the sandbox ended while no server was there";
}

static void note_end(const struct round *round, struct sandbox_row *row, struct err *err)
{
    struct service *service = round->service;
    const char *why = reason_of_end(round, row);

    if (row->status == SANDBOX_STATUS_ERROR)
        return;
    if (row->status == SANDBOX_STATUS_STOPPING) {
        life_move(service, row, SANDBOX_STATUS_ANY, SANDBOX_STATUS_STOPPED, NULL, err);
        return;
    }
    if (session_row_close_all(service->store, row->id, NULL, clock_wall_ns(), err) < 0 ||
        life_move(service, row, SANDBOX_STATUS_ANY, SANDBOX_STATUS_ERROR, why, err) < 0)
        janitor_doubt(service);
    tell(service, row, "sandbox_failed", why);
}

/* Nobody can use it now, so it does not run as far as anybody can see; but what it does goes on, and its sessions live. */
static void note_silence(const struct round *round, struct sandbox_row *row, struct err *err)
{
    static const char why[] = "the sandbox's supervisor does not answer; it is asked again and again";
    const unsigned from = SANDBOX_STATUS_BIT(SANDBOX_STATUS_STARTING) | SANDBOX_STATUS_BIT(SANDBOX_STATUS_RUNNING);

    janitor_doubt(round->service);
    if (!(from & SANDBOX_STATUS_BIT((unsigned) row->status)))
        return;
    log_warn("a sandbox's supervisor does not answer", LOG_STR("sandbox_id", row->id));
    *err = ERR_NONE;
    if (life_move(round->service, row, from, SANDBOX_STATUS_ERROR, why, err) == 0)
        tell(round->service, row, "sandbox_failed", why);
}

static void note_running(const struct round *round, struct ward *ward, struct sandbox_row *row, struct err *err)
{
    const unsigned from = SANDBOX_STATUS_BIT(SANDBOX_STATUS_STARTING) | SANDBOX_STATUS_BIT(SANDBOX_STATUS_ERROR);
    bool was_lost = row->status == SANDBOX_STATUS_ERROR;

    if (row->status == SANDBOX_STATUS_STOPPING)
        life_stop(round->service, ward, row, err);
    else if (row->status != SANDBOX_STATUS_RUNNING &&
             life_move(round->service, row, from, SANDBOX_STATUS_RUNNING, NULL, err) == 0 && was_lost)
        tell(round->service, row, "sandbox_recovered", "the sandbox's supervisor answers again");
}

/* ---- one after the other ---- */

static void look_at(const struct round *round, struct ward *ward, struct sandbox_row *row)
{
    autoptr(ward) running = ward_find_running(&round->service->wards, row->id);
    struct err err = ERR_NONE;
    int r = running ? 0 : adopt(round, ward, row, &err);

    if (row->status == SANDBOX_STATUS_DELETING) {
        err = ERR_NONE;
        if (life_destroy(round->service, ward, row, &err) < 0)
            log_warn("a sandbox could not be removed", LOG_STR("sandbox_id", row->id), LOG_STR("error", err.text));
    } else if (r == 0) {
        note_running(round, ward, row, &err);
    } else if (r == -ENOTCONN || r == -ENOENT) {
        note_end(round, row, &err);
    } else {
        note_silence(round, row, &err);
    }
}

/* Whether there is anything to look at: most that failed have no supervisor, and most that run are known to. */
static bool is_plain(const struct round *round, const struct sandbox_row *row)
{
    autoptr(ward) running = ward_find_running(&round->service->wards, row->id);

    if (row->status == SANDBOX_STATUS_ERROR)
        return !state_dir_is_running(&round->service->state_dir, row->id);
    return running && row->status == SANDBOX_STATUS_RUNNING;
}

/* Whoever is at work with it holds `life`, and will write what came of it. */
static void take_up(const struct round *round, const struct sandbox_row *listed)
{
    struct service *service = round->service;
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    autoptr(ward) ward = NULL;
    struct err err = ERR_NONE;

    if (is_plain(round, listed))
        return;
    ward = ward_get(&service->wards, listed->id);
    if (pthread_mutex_trylock(&ward->life) != 0)
        return;
    /* It may have ended meanwhile, and that may have been written. */
    if (sandbox_row_get(service->store, listed->id, &row, &err) == 0 &&
        (ACTIVE | SANDBOX_STATUS_BIT(SANDBOX_STATUS_ERROR)) & SANDBOX_STATUS_BIT((unsigned) row.status) &&
        !is_plain(round, &row))
        look_at(round, ward, &row);
    pthread_mutex_unlock(&ward->life);
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
        .base = SANDBOX_BASE_CODEBASE,
        .statuses = ACTIVE | SANDBOX_STATUS_BIT(SANDBOX_STATUS_ERROR),
    };

    return service_each_sandbox(round->service, &filter, take_up_listed, round, err);
}

int adoption_run(struct service *service, struct err *err)
{
    struct round round = { .service = service,
                           .patient_until_ns = clock_now_ns() + START_MS * CLOCK_NS_PER_MS,
                           .is_first = true };

    return go_through(&round, err);
}

void adoption_reconcile(struct service *service)
{
    struct round round = { .service = service };
    struct err ignored = ERR_NONE;

    if (go_through(&round, &ignored) < 0)
        janitor_doubt(service);
}
