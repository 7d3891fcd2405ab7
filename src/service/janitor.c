#include "service/janitor.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/adoption.h"
#include "service/events.h"
#include "service/idempotency.h"
#include "service/life.h"
#include "service/reviews_int.h"
#include "service/service_int.h"
#include "service/sessions.h"
#include "service/sync.h"
#include "store/event_row.h"
#include "store/idempotency_row.h"
#include "store/session_row.h"

#define TRIM_STEP 500
#define DOUBT_NS (5 * CLOCK_NS_PER_SEC)
#define INTERVAL_MAX_NS (INT64_MAX / 4) /* leaves room to add a time */
#define SESSIONS_KEPT_NS (24LL * 3600 * CLOCK_NS_PER_SEC)

/* True in the janitor's own thread, which needs no wakeup. */
static _Thread_local bool is_janitor;

struct janitor {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_ending, is_woken;
};

/* Whether the delta of a stopped sandbox has changes that its codebase does not have. True also if this cannot be determined. */
static bool has_changes(struct service *service, const char *id)
{
    char name[SANDBOX_NAME_MAX];
    struct err ignored = ERR_NONE;
    autofd int dir_fd = -1;

    return state_dir_find(&service->state_dir, id, name, &dir_fd, &ignored) < 0 || sandbox_dir_has_changes(dir_fd);
}

static int retire_for_good(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, struct err *err)
{
    int r = life_delete(service, conn, row, true, err);

    if (r == 0)
        sandbox_tell(service, &caller_system, row, "sandbox_destroyed", NULL, NULL);
    return r;
}

static void retire(struct service *service, struct sandbox_row *row, void *cookie)
{
    const int64_t now = *(const int64_t *) cookie;
    autoptr(sandbox_conn) conn = sandbox_conn_get(&service->conns, row->id);
    struct err err = ERR_NONE;
    autodone(sandbox_row) struct sandbox_row fresh = { 0 };
    int r;

    pthread_mutex_lock(&conn->life);
    r = sandbox_row_get(service->store, row->id, &fresh, &err);
    if (r == 0 && fresh.status == SANDBOX_STATUS_RUNNING) {
        r = life_stop(service, &caller_system, conn, &fresh, &err);
        sandbox_tell(service, &caller_system, &fresh, "sandbox_expired", NULL, NULL);
    }
    if (r == 0 && (now - fresh.expires_ns > service->options.retention_ns || !has_changes(service, fresh.id)))
        r = retire_for_good(service, conn, &fresh, &err);
    pthread_mutex_unlock(&conn->life);
    if (r < 0 && r != -ENOENT)
        log_warn("an expired sandbox could not be put away", LOG_STR("sandbox_id", row->id), LOG_STR("error", err.text));
}

static void retire_expired(struct service *service)
{
    int64_t now = clock_wall_ns();
    struct sandbox_filter filter = { .host_id = service->host_id,
                                     .statuses = SANDBOX_STATUS_ANY & ~SANDBOX_STATUS_BIT(SANDBOX_STATUS_DELETED),
                                     .expires_until_ns = now };
    struct err err = ERR_NONE;

    if (service_each_sandbox(service, &filter, retire, &now, &err) < 0)
        log_warn("expired sandboxes could not be looked for", LOG_STR("error", err.text));
}

static void trim(struct service *service)
{
    int64_t now = clock_wall_ns();
    struct err ignored = ERR_NONE;

    while (service->options.events_age_ns > 0 &&
           event_row_trim(service->store, now - service->options.events_age_ns, 0, TRIM_STEP, &ignored) > 0)
        ;
    while (session_row_trim(service->store, service->host_id, now - SESSIONS_KEPT_NS, TRIM_STEP, &ignored) > 0)
        ;
    idempotency_recover(service, now - IDEMPOTENCY_OPEN_NS, &ignored);
    while (idempotency_row_trim(service->store, now, TRIM_STEP, &ignored) > 0)
        ;
}

/* Returns the time until the next round. */
static int64_t do_round(struct service *service)
{
    int64_t usual =
        service->options.cleanup_interval_ns < INTERVAL_MAX_NS ? service->options.cleanup_interval_ns : INTERVAL_MAX_NS;
    bool was_unsure = atomic_exchange(&service->is_unsure, false);

    sync_all_that_need_it(service);
    adoption_reconcile(service);
    if (was_unsure && sessions_reconcile(service) < 0)
        atomic_store(&service->is_unsure, true);
    if (was_unsure) {
        reviews_recover(service);
        life_sweep(service);
    }
    retire_expired(service);
    sandboxes_tend(service);
    trim(service);
    return atomic_load(&service->is_unsure) && DOUBT_NS < usual ? DOUBT_NS : usual;
}

static void *work(void *arg)
{
    struct service *service = arg;
    struct janitor *janitor = service->janitor;

    is_janitor = true;
    pthread_mutex_lock(&janitor->lock);
    while (!janitor->is_ending) {
        struct timespec until;
        int64_t pause;

        pthread_mutex_unlock(&janitor->lock);
        pause = do_round(service);
        pthread_mutex_lock(&janitor->lock);
        until = clock_timespec_of_ns(clock_now_ns() + pause);
        while (!janitor->is_ending && !janitor->is_woken &&
               pthread_cond_timedwait(&janitor->wake, &janitor->lock, &until) != ETIMEDOUT)
            ;
        janitor->is_woken = false;
    }
    pthread_mutex_unlock(&janitor->lock);
    return NULL;
}

int janitor_start(struct service *service, struct err *err)
{
    struct janitor *janitor = xnew(struct janitor);
    pthread_condattr_t clock;
    int r;

    pthread_mutex_init(&janitor->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&janitor->wake, &clock);
    pthread_condattr_destroy(&clock);
    service->janitor = janitor;
    r = pthread_create(&janitor->thread, NULL, work, service);
    if (r == 0)
        return 0;
    service->janitor = NULL;
    free(janitor);
    return err_errno(err, -r, "starting a thread");
}

/* During recovery the janitor does not exist yet; its first round follows soon. */
void janitor_wake(struct service *service)
{
    struct janitor *janitor = service->janitor;

    if (!janitor)
        return;
    pthread_mutex_lock(&janitor->lock);
    janitor->is_woken = true;
    pthread_cond_signal(&janitor->wake);
    pthread_mutex_unlock(&janitor->lock);
}

void janitor_doubt(struct service *service)
{
    atomic_store(&service->is_unsure, true);
    if (!is_janitor)
        janitor_wake(service);
}

void janitor_stop(struct service *service)
{
    struct janitor *janitor = service->janitor;

    if (!janitor)
        return;
    pthread_mutex_lock(&janitor->lock);
    janitor->is_ending = true;
    pthread_cond_signal(&janitor->wake);
    pthread_mutex_unlock(&janitor->lock);
    pthread_join(janitor->thread, NULL);
    pthread_mutex_destroy(&janitor->lock);
    pthread_cond_destroy(&janitor->wake);
    free(janitor);
    service->janitor = NULL;
}
