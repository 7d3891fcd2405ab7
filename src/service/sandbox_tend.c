/* Applies time limits and behaviours to workspaces. */
#include "service/sandbox_tend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "review/prune.h"
#include "service/life.h"
#include "service/review_commit.h"

#define BIT(name) SANDBOX_STATE_BIT(SANDBOX_STATE_##name)
#define TERMINAL (BIT(APPROVED) | BIT(REJECTED))
#define LIMIT_DEFAULT 100
#define PRUNE_EVERY_NS (3600 * CLOCK_NS_PER_SEC)

/* ---- behaviour ---- */

static void stop_now(struct service *service, const char *id, const char *why)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct sandbox_conn *conn = NULL;
    struct err err = ERR_NONE;

    if (life_hold(service, &caller_system, id, &conn, &row, &err) < 0)
        return;
    if (row.status == SANDBOX_STATUS_RUNNING && life_stop(service, NULL, conn, &row, &err) == 0)
        sandbox_tell(service, &caller_system, &row, "sandbox_stopped", NULL, json_pack("{s:s}", "reason", why));
    life_release(conn);
}

static int remove_now(struct service *service, const struct caller *caller, const char *id, unsigned from, const char *type,
                      const char *why, bool purges, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct sandbox_conn *conn = NULL;
    int r = life_hold(service, caller, id, &conn, &row, err);

    if (r < 0)
        return r;
    if (!(from & SANDBOX_STATE_BIT(sandbox_row_state(&row))))
        r = err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "it is %s now", sandbox_state_name(sandbox_row_state(&row)));
    if (r == 0)
        r = life_delete(service, conn, &row, purges, err);
    if (r == 0 || (from & BIT(DELETED) ? false : sandbox_row_state(&row) == SANDBOX_STATE_DELETED))
        sandbox_tell(service, caller, &row, type, NULL, json_pack("{s:s}", "reason", why));
    life_release(conn);
    return r;
}

void sandboxes_happened(struct service *service, const char *id, enum behavior_event event)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct err err = ERR_NONE;
    unsigned bits = (unsigned) event;

    if (sandbox_row_get(service->store, id, &row, &err) < 0)
        return;
    struct behavior behavior = behavior_parse(row.behavior);
    if (bits & (BEHAVIOR_APPROVED | BEHAVIOR_REJECTED))
        bits |= BEHAVIOR_TERMINAL;
    if (behavior.delete_on & bits)
        remove_now(service, &caller_system, id, SANDBOX_STATE_ANY & ~BIT(DELETED), "sandbox_destroyed", "deleteOn", false,
                   &err);
    else if (behavior.stop_on & bits)
        stop_now(service, id, "stopOn");
}

static bool is_busy(struct service *service, const char *id)
{
    struct sandbox_health health;

    sandbox_ask_supervisor(service, id, &health);
    return health.is_healthy && health.execs > 0;
}

static void tend_one(struct service *service, struct sandbox_row *row, void *cookie)
{
    const int64_t now = *(const int64_t *) cookie;
    struct behavior behavior = behavior_parse(row->behavior);
    unsigned terminal = sandbox_row_state(row) == SANDBOX_STATE_APPROVED   ? BEHAVIOR_APPROVED | BEHAVIOR_TERMINAL
                        : sandbox_row_state(row) == SANDBOX_STATE_REJECTED ? BEHAVIOR_REJECTED | BEHAVIOR_TERMINAL
                                                                           : 0;
    struct err err = ERR_NONE;

    if (sandbox_row_state(row) == SANDBOX_STATE_ACTIVE) {
        if (behavior.idle_ns > 0 && now - row->used_ns >= behavior.idle_ns && !is_busy(service, row->id))
            stop_now(service, row->id, "idleTimeout");
        return;
    }
    if (behavior.delete_on & terminal)
        remove_now(service, &caller_system, row->id, TERMINAL, "sandbox_destroyed", "deleteOn", false, &err);
    else if (behavior.ttl_ns > 0 && now - row->created_ns >= behavior.ttl_ns)
        remove_now(service, &caller_system, row->id, SANDBOX_STATE_ANY & ~BIT(ACTIVE) & ~BIT(CREATING) & ~BIT(DELETED),
                   "sandbox_destroyed", "ttl", false, &err);
    if (err.code != ERR_OK)
        log_warn("a sandbox could not be put away", LOG_STR("sandbox_id", row->id), LOG_STR("error", err.text));
}

static void collect_terminal(struct service *service)
{
    struct sandbox_gc gc = { .max_age_ns = -1,
                             .idle_ns = -1,
                             .terminal_delay_ns = service->options.sandbox_terminal_ns,
                             .with_terminal = true,
                             .trash_ns = -1,
                             .states = TERMINAL };
    struct sandbox_gc_result result = { 0 };
    struct err err = ERR_NONE;

    if (!service->options.collects_terminal_workspaces)
        return;
    if (sandboxes_gc(service, &caller_system, &gc, &result, &err) < 0)
        log_warn("sandboxes could not be collected", LOG_STR("error", err.text));
    sandbox_gc_result_done(&result);
}

static void empty_trash(struct service *service)
{
    struct sandbox_trash_request wish = { .after_ns = service->options.workspace_trash_ns };
    struct sandbox_trash trash;
    struct err err = ERR_NONE;

    if (sandboxes_empty_trash(service, &caller_system, &wish, &trash, &err) < 0)
        log_warn("the trash could not be emptied", LOG_STR("error", err.text));
}

/* At intervals: each check costs a few system calls per workspace. */
static void prune_now_and_then(struct service *service)
{
    int64_t window_ns = service->options.workspace_undo_ns, now_ns = clock_now_ns();
    struct prune pruned;
    struct err err = ERR_NONE;

    if (now_ns < service->prunes_at_ns)
        return;
    service->prunes_at_ns = now_ns + (window_ns / 24 < PRUNE_EVERY_NS ? window_ns / 24 : PRUNE_EVERY_NS);
    if (sandboxes_prune(service, &caller_system, false, &pruned, &err) < 0)
        log_warn("old approvals are not forgotten", LOG_STR("error", err.text));
    review_contributions_sweep(service);
}

void sandboxes_tend(struct service *service)
{
    struct sandbox_filter filter = { .host_id = service->host_id,
                                     .base = SANDBOX_BASE_DIRECTORY,
                                     .states = BIT(ACTIVE) | BIT(STOPPED) | BIT(ERROR) | TERMINAL };
    int64_t now = clock_wall_ns();
    struct err err = ERR_NONE;

    if (service_each_sandbox(service, &filter, tend_one, &now, &err) < 0) {
        log_warn("sandboxes could not be looked after", LOG_STR("error", err.text));
        return;
    }
    collect_terminal(service);
    empty_trash(service);
    prune_now_and_then(service);
}

/* ---- garbage collection ---- */

void sandbox_gc_result_done(struct sandbox_gc_result *result)
{
    for (size_t i = 0; i < result->count; i++)
        sandbox_row_done(&result->items[i].row);
    free(result->items);
    *result = (struct sandbox_gc_result){ 0 };
}

struct sandbox_gc sandboxes_gc_default(const struct service *service)
{
    return (struct sandbox_gc){
        .max_age_ns = service->options.workspace_ttl_ns,
        .idle_ns = service->options.workspace_idle_ns,
        .terminal_delay_ns = service->options.sandbox_terminal_ns,
        .max_total_bytes = (int64_t) service->options.workspace_total_bytes_max,
        .with_terminal = true,
        .limit = LIMIT_DEFAULT,
        .trash_ns = service->options.workspace_trash_ns,
    };
}

struct sandbox_windows sandboxes_windows(const struct service *service)
{
    return (struct sandbox_windows){
        .undo_ns = service->options.workspace_undo_ns,
        .trash_ns = service->options.workspace_trash_ns,
        .collects_decided = service->options.collects_terminal_workspaces,
    };
}

/* Returns whether to collect it, with the reason. */
static bool judge(const struct sandbox_gc *gc, const struct sandbox_row *row, int64_t now, char reason[128])
{
    bool is_terminal = TERMINAL & SANDBOX_STATE_BIT(sandbox_row_state(row));

    if (is_terminal && gc->terminal_delay_ns >= 0 && now - row->closed_ns >= gc->terminal_delay_ns)
        snprintf(reason, 128, "%s for longer than the delay", sandbox_state_name(sandbox_row_state(row)));
    else if (gc->max_age_ns >= 0 && now - row->created_ns >= gc->max_age_ns)
        snprintf(reason, 128, "older than the maximum age");
    else if (gc->idle_ns >= 0 && now - row->used_ns >= gc->idle_ns)
        snprintf(reason, 128, "idle for longer than the timeout");
    else
        return false;
    return true;
}

static void add(struct sandbox_gc_result *result, struct sandbox_row *row, const char *reason)
{
    vec_room(&result->items, &result->cap, result->count);
    struct sandbox_gc_one *one = &result->items[result->count++];
    *one = (struct sandbox_gc_one){ .row = *row };
    *row = (struct sandbox_row){ 0 };
    snprintf(one->reason, sizeof(one->reason), "%s", reason);
}

/* Sandboxes that may be collected, the oldest first. */
struct candidates {
    struct sandbox_row *rows; /* owned */
    size_t count, cap;
};

static void collect_row(struct service *service, struct sandbox_row *row, void *cookie)
{
    struct candidates *candidates = cookie;

    (void) service;
    vec_room(&candidates->rows, &candidates->cap, candidates->count);
    candidates->rows[candidates->count++] = *row;
    *row = (struct sandbox_row){ 0 };
}

static void free_rows(struct candidates *candidates)
{
    for (size_t i = 0; i < candidates->count; i++)
        sandbox_row_done(&candidates->rows[i]);
    free(candidates->rows);
}

/* Adds the oldest first, until the rest fits. */
static void choose(const struct sandbox_gc *gc, struct candidates *rows, int64_t total, struct sandbox_gc_result *ret)
{
    int64_t now = clock_wall_ns();
    size_t limit = gc->limit ? gc->limit : LIMIT_DEFAULT;

    for (size_t i = 0; i < rows->count && ret->count < limit; i++) {
        char reason[128];

        if (!judge(gc, &rows->rows[i], now, reason))
            continue;
        total -= rows->rows[i].size_bytes;
        add(ret, &rows->rows[i], reason);
    }
    for (size_t i = 0; i < rows->count && ret->count < limit && gc->max_total_bytes > 0 && total > gc->max_total_bytes; i++) {
        if (!rows->rows[i].id || rows->rows[i].size_bytes == 0)
            continue;
        total -= rows->rows[i].size_bytes;
        add(ret, &rows->rows[i], "all together are larger than the limit");
        ret->items[ret->count - 1].purges = true;
    }
}

/* Empties the trash before anything else is collected. */
static int collect_trash(struct service *service, const struct caller *caller, const struct sandbox_gc *gc, int64_t total,
                         struct sandbox_trash *ret, struct err *err)
{
    struct sandbox_trash_request wish = { .after_ns = gc->trash_ns < 0 ? INT64_MAX : gc->trash_ns,
                                          .is_dry = gc->is_dry,
                                          .measures = true };
    int r = sandboxes_empty_trash(service, caller, &wish, ret, err);

    if (r < 0 || gc->max_total_bytes <= 0 || ret->kept == 0 || total + ret->kept_bytes <= gc->max_total_bytes)
        return r;
    struct sandbox_trash before = *ret;
    wish.after_ns = 0;
    r = sandboxes_empty_trash(service, caller, &wish, ret, err);
    if (!gc->is_dry) {
        ret->purged += before.purged;
        ret->purged_bytes += before.purged_bytes;
    }
    return r;
}

int sandboxes_gc(struct service *service, const struct caller *caller, const struct sandbox_gc *gc,
                 struct sandbox_gc_result *ret, struct err *err)
{
    struct sandbox_filter filter = {
        .host_id = service->host_id,
        .base = SANDBOX_BASE_DIRECTORY,
        .owner_id = caller->is_admin ? NULL : caller->owner,
        .states = gc->states ? gc->states : BIT(STOPPED) | BIT(ERROR) | (gc->with_terminal ? TERMINAL : 0),
    };
    struct sandbox_count counts[SANDBOX_STATE_COUNT];
    struct candidates rows = { 0 };
    int64_t total = 0;
    const struct sandbox_filter all = { .host_id = service->host_id, .base = SANDBOX_BASE_DIRECTORY };
    int r = sandbox_row_count_states(service->store, &all, counts, err);

    for (int i = 0; r == 0 && i < SANDBOX_STATE_COUNT; i++)
        total += i == SANDBOX_STATE_DELETED ? 0 : counts[i].size_bytes;
    if (r == 0 && caller != &caller_system) {
        struct prune pruned;

        r = sandboxes_prune(service, caller, gc->is_dry, &pruned, err);
        ret->pruned_records = pruned.records;
        ret->pruned_copies = pruned.copies;
        ret->pruned_bytes = pruned.bytes;
    }
    if (r == 0 && service->options.workspace_trash_ns > 0 && caller != &caller_system)
        r = collect_trash(service, caller, gc, total, &ret->trash, err);
    /* Never collect sandboxes that are in use, whatever the request says. */
    filter.states &= ~(BIT(ACTIVE) | BIT(CREATING) | BIT(DELETED));
    if (r < 0 || !filter.states)
        return r;
    r = service_each_sandbox(service, &filter, collect_row, &rows, err);
    if (r == 0)
        choose(gc, &rows, total, ret);
    free_rows(&rows);
    if (r < 0)
        return r;
    for (size_t i = 0; !gc->is_dry && i < ret->count; i++) {
        struct err failure = ERR_NONE;

        if (remove_now(service, caller, ret->items[i].row.id, filter.states, "sandbox_gc_collected", ret->items[i].reason,
                       ret->items[i].purges, &failure) < 0)
            snprintf(ret->items[i].error, sizeof(ret->items[i].error), "%s", failure.text);
        else
            service->sandbox_totals.gc_deleted++;
    }
    if (!gc->is_dry)
        service->sandbox_totals.gc_runs++;
    return 0;
}
