#include "service/recovery.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/claims.h"
#include "service/condemned.h"
#include "service/events.h"
#include "service/life.h"
#include "service/service_int.h"
#include "service/shelf_int.h"
#include "service/sync.h"
#include "service/watch.h"
#include "store/event_row.h"
#include "store/session_row.h"
#include "wire/ctl_client.h"

#define EVENTS_BACK 200
#define HELLO_MS 10000
#define ACTIVE                                                                                                                 \
    (SANDBOX_STATUS_BIT(SANDBOX_STATUS_STARTING) | SANDBOX_STATUS_BIT(SANDBOX_STATUS_RUNNING) |                                \
     SANDBOX_STATUS_BIT(SANDBOX_STATUS_STOPPING) | SANDBOX_STATUS_BIT(SANDBOX_STATUS_DESTROYING))

/* ---- sandboxes ---- */

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

/* 0: it answers, and runs. */
static int greet(int dir_fd, int *ret_fd, struct err *err)
{
    autofree char *payload = malloc(FRAME_PAYLOAD_MAX);
    struct ctl_reply reply;
    struct frame frame;
    autofd int fd = -1;
    int r = payload ? ctl_client_connect(dir_fd, &fd, err) : -ENOMEM;

    if (r < 0)
        return r;
    r = ctl_client_receive(fd, payload, HELLO_MS, &frame, &reply);
    if (r == 0)
        frame_close_fds(&frame);
    while (r == 0 && (reply.type == CTL_REPLY_HELLO ? reply.hello.state : reply.state.state) == CTL_STATE_BOOTING) {
        r = ctl_client_receive(fd, payload, HELLO_MS, &frame, &reply);
        if (r == 0)
            frame_close_fds(&frame);
    }
    if (r < 0)
        return err_errno(err, r, "greeting the sandbox's supervisor");
    if ((reply.type == CTL_REPLY_HELLO ? reply.hello.state : reply.state.state) != CTL_STATE_RUNNING)
        return err_set(err, ERR_FAILED_PRECONDITION, -ENOTCONN, "the sandbox ends");
    *ret_fd = steal_fd(&fd);
    return 0;
}

int recovery_adopt(struct service *service, struct ward *ward, const struct recovery_ward *as, struct err *err)
{
    char name[SANDBOX_NAME_MAX];
    struct proc nobody = PROC_NONE;
    autofd int dir_fd = -1;
    autofd int fd = -1;
    int r = home_find(&service->home, ward->id, name, &dir_fd, err);

    if (r == 0 && !home_is_running(dir_fd))
        r = err_set(err, ERR_FAILED_PRECONDITION, -ENOTCONN, "the sandbox does not run");
    if (r == 0)
        r = greet(dir_fd, &fd, err);
    if (r < 0)
        return r;
    ward_set_running(ward, &nobody, steal_fd(&dir_fd), as->owner, as->codebase_id, as->syncs);
    uint64_t last = as->event_id ? last_event_of(service, as->event_id, as->since_ns) : 0;
    return watch_add(service, ward, steal_fd(&fd), last, err);
}

static int adopt(struct service *service, struct ward *ward, const struct sandbox_row *row, struct err *err)
{
    struct recovery_ward as = { .owner = row->owner_id,
                                .codebase_id = row->codebase_id,
                                .syncs = row->sync_on_completion,
                                .event_id = row->id,
                                .since_ns = row->started_ns };

    return recovery_adopt(service, ward, &as, err);
}

static void mark_ended(struct service *service, struct sandbox_row *row, const char *why, struct err *err)
{
    session_row_close_all(service->store, row->id, NULL, clock_wall_ns(), err);
    life_move(service, row, SANDBOX_STATUS_ANY, SANDBOX_STATUS_ERROR, why, err);
    events_add(service, &(struct event){ .type = "sandbox_failed",
                                         .sandbox_id = row->id,
                                         .codebase_id = row->codebase_id,
                                         .owner = row->owner_id,
                                         .payload = json_pack("{s:s}", "reason", why) });
}

static void note_end(struct service *service, struct sandbox_row *row, const char *why, struct err *err)
{
    if (row->status == SANDBOX_STATUS_STOPPING)
        life_move(service, row, SANDBOX_STATUS_ANY, SANDBOX_STATUS_STOPPED, NULL, err);
    else
        mark_ended(service, row, why, err);
}

static void note_running(struct service *service, struct ward *ward, struct sandbox_row *row, struct err *err)
{
    if (row->status == SANDBOX_STATUS_STARTING)
        life_move(service, row, SANDBOX_STATUS_BIT(SANDBOX_STATUS_STARTING), SANDBOX_STATUS_RUNNING, NULL, err);
    else if (row->status == SANDBOX_STATUS_STOPPING)
        life_stop(service, ward, row, err);
}

/* What was meant to run. One whose start was never told to anybody runs all the same: the store had its intent. */
static void recover_active(struct service *service, struct ward *ward, struct sandbox_row *row, struct err *err)
{
    enum sandbox_status was = (enum sandbox_status) row->status;
    int r = adopt(service, ward, row, err);

    if (r < 0) {
        note_end(service, row,
                 was == SANDBOX_STATUS_STARTING ? "the server ended while the sandbox was starting"
                                                : "the sandbox ended while no server was there",
                 err);
        return;
    }
    note_running(service, ward, row, err);
    /* What ended while nobody was there. */
    sync_later(service, ward);
    log_info("sandbox adopted", LOG_STR("sandbox_id", row->id));
}

static void recover_one(struct service *service, struct sandbox_row *row)
{
    autoptr(ward) ward = ward_get(&service->wards, row->id);
    struct err err = ERR_NONE;

    pthread_mutex_lock(&ward->life);
    if (row->status == SANDBOX_STATUS_DESTROYING) {
        if (adopt(service, ward, row, &err) < 0)
            err = ERR_NONE;
        if (life_destroy(service, ward, row, &err) < 0)
            log_warn("a sandbox could not be removed", LOG_STR("sandbox_id", row->id), LOG_STR("error", err.text));
    } else {
        recover_active(service, ward, row, &err);
    }
    pthread_mutex_unlock(&ward->life);
}

/* Whoever is at work with it holds `life`, and will write what came of it. */
static void reconcile_one(struct service *service, struct sandbox_row *listed)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    autoptr(ward) running = ward_find_running(&service->wards, listed->id);
    autoptr(ward) ward = NULL;
    struct err err = ERR_NONE;

    if (running && listed->status == SANDBOX_STATUS_RUNNING)
        return;
    ward = ward_get(&service->wards, listed->id);
    if (pthread_mutex_trylock(&ward->life) != 0)
        return;
    ward_unref(steal_ptr(&running));
    running = ward_find_running(&service->wards, listed->id);
    if (sandbox_row_get(service->store, listed->id, &row, &err) == 0) {
        if (row.status == SANDBOX_STATUS_DESTROYING)
            life_destroy(service, ward, &row, &err);
        else if (!(ACTIVE & SANDBOX_STATUS_BIT(row.status)))
            ; /* it ended, and that was written, in between */
        else if (running)
            note_running(service, ward, &row, &err);
        else
            note_end(service, &row, "the sandbox ended while the database was away", &err);
    }
    pthread_mutex_unlock(&ward->life);
}

static int each_active(struct service *service, void (*fn)(struct service *service, struct sandbox_row *row), struct err *err)
{
    struct sandbox_filter filter = {
        .host_id = service->host_id,
        .statuses = ACTIVE,
    };
    autofree char *token = NULL;

    do {
        struct store_page page = { .limit = STORE_PAGE_MAX, .token = token };
        struct sandbox_rows rows = { 0 };
        int r = sandbox_row_list(service->store, &filter, &page, &rows, err);

        if (r < 0)
            return r;
        for (size_t i = 0; i < rows.count; i++)
            fn(service, &rows.rows[i]);
        free(token);
        token = steal_ptr(&rows.next_token);
        sandbox_rows_done(&rows);
    } while (token);
    return 0;
}

/* ---- what is nobody's ---- */

struct names {
    char **items; /* owned, each too */
    size_t count, cap;
};

static void names_done(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
}

static void add_name(struct names *names, const char *name)
{
    vec_room(&names->items, &names->cap, names->count);
    names->items[names->count++] = xdup(name);
}

static int collect_directory(const char *name, int dir_fd, void *cookie)
{
    (void) dir_fd;
    add_name(cookie, name);
    return 0;
}

static int collect_codebase(const char *id, void *cookie)
{
    add_name(cookie, id);
    return 0;
}

/* What has no row was being made when a server died, and nobody was told of it; or the database is another than it was, restored from
 * an older copy perhaps, and then it is somebody's work. So only what nobody worked in goes. */
static bool was_used(struct service *service, const char *name)
{
    char found[SANDBOX_NAME_MAX];
    struct err ignored = ERR_NONE;
    autofd int dir_fd = -1;

    return home_find(&service->home, name, found, &dir_fd, &ignored) == 0 &&
           (home_is_running(dir_fd) || home_has_changes(dir_fd));
}

static int sweep_sandboxes(struct service *service, struct err *err)
{
    struct names names = { 0 };
    int r = home_each(&service->home, collect_directory, &names, err);

    for (size_t i = 0; r >= 0 && i < names.count; i++) {
        struct sandbox_row row = { 0 };
        struct err missing = ERR_NONE;

        if (!id_is_valid(SANDBOX_ID_PREFIX, names.items[i]))
            continue; /* not of our making */
        if (sandbox_row_get(service->store, names.items[i], &row, &missing) == -ENOENT) {
            err->code = ERR_OK;
            if (was_used(service, names.items[i]))
                log_warn("a sandbox is not in the database; it is left alone", LOG_STR("sandbox_id", names.items[i]));
            else if (home_remove(&service->home, names.items[i], err) < 0)
                log_warn("a sandbox that nobody knows could not be removed", LOG_STR("name", names.items[i]),
                         LOG_STR("error", err->text));
        }
        sandbox_row_done(&row);
    }
    names_done(&names);
    return r < 0 ? r : 0;
}

/* As with sandboxes: one that was never written to is removed, the files of another are not ours to judge. */
static void recover_codebase(struct service *service, const char *id)
{
    autodone(codebase_row) struct codebase_row row = { 0 };
    autoptr(codebase) codebase = NULL;
    struct codebase_info info;
    struct err err = ERR_NONE;
    bool is_known = true;
    int r = codebase_row_get(service->store, id, &row, &err);

    if (r == -ENOENT)
        is_known = false;
    else if (r < 0)
        return;
    if (codebase_open(service->codebases, id, &codebase, &err) < 0 || codebase_info(codebase, &info, &err) < 0)
        return;
    if (is_known && (int64_t) info.version != row.version)
        shelf_refresh_row(service, codebase, &err);
    if (is_known)
        return;
    codebase_close(steal_ptr(&codebase));
    if (info.version == 0 || condemned_has(service, id))
        codebase_delete(service->codebases, id, &err);
    else
        log_warn("a codebase is not in the database; its files are left alone", LOG_STR("codebase_id", id));
}

/* Counters that a killed server did not write; files of codebases that were never acknowledged. */
static int recover_codebases(struct service *service, struct err *err)
{
    struct names names = { 0 };
    int r = codebases_recover(service->codebases, err);

    if (r < 0)
        log_warn("a codebase could not be put right", LOG_STR("error", err->text));
    r = codebases_each(service->codebases, collect_codebase, &names, err);
    for (size_t i = 0; r >= 0 && i < names.count; i++)
        recover_codebase(service, names.items[i]);
    names_done(&names);
    if (r >= 0)
        condemned_forget_all(service);
    return r < 0 ? r : 0;
}

/* Whoever changed a codebase when the server was killed may not have been able to tell the others. */
static void refresh(struct ward *ward, void *cookie)
{
    if (*ward->codebase_id)
        sync_tell_siblings(cookie, ward->codebase_id, NULL, NULL, 0);
}

int recovery_run(struct service *service, struct err *err)
{
    int r = recover_codebases(service, err);

    if (r == 0)
        r = each_active(service, recover_one, err);
    if (r == 0)
        r = sweep_sandboxes(service, err);
    if (r == 0)
        r = claims_recover(service, INT64_MAX, err);
    if (r == 0)
        wards_each_running(&service->wards, refresh, service);
    return r < 0 ? err_wrap(err, r, "looking at what the last server left") : 0;
}

void recovery_reconcile(struct service *service)
{
    struct err ignored = ERR_NONE;

    each_active(service, reconcile_one, &ignored);
}
