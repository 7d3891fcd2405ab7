/* Health, counters and audit. */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace.h"
#include "api/compat_workspace_routes.h"
#include "api/gate.h"
#include "base/clock.h"
#include "base/mem.h"
#include "review/file_id.h"
#include "service/events.h"
#include "service/sandbox_care.h"
#include "service/service.h"
#include "service/stats.h"

#define AUDIT_DEFAULT 100
#define AUDIT_MAX 1000
#define DESTROYED "destroyed"

/* ---- counters ---- */

static int64_t count_total(const struct sandbox_count counts[SANDBOX_STATE_COUNT], bool of_bytes)
{
    int64_t sum = 0;

    for (int i = 0; i < SANDBOX_STATE_COUNT; i++)
        if (!of_bytes || i != SANDBOX_STATE_DELETED)
            sum += of_bytes ? counts[i].size_bytes : counts[i].count;
    return sum;
}

/* ---- health ---- */

/* Adds what counts the caller's own sandboxes, or everybody's for an administrator. Leaves out what cannot be counted now. */
static void health_add_own(json_t *answer, struct service *service, const struct caller *caller)
{
    struct sandbox_count counts[SANDBOX_STATE_COUNT];
    const char *root = sandboxes_project_root(service);
    json_t *metrics = json_object_get(answer, "metrics");
    struct err ignored = ERR_NONE;

    if (caller->is_admin)
        json_object_set_new(answer, "config", json_pack("{s:o}", "projectRoot", compat_text(root, strlen(root))));
    if (sandboxes_count(service, caller, SANDBOX_BASE_DIRECTORY, counts, &ignored) < 0)
        return;
    json_int_t kept = count_total(counts, false) - counts[SANDBOX_STATE_DELETED].count;
    json_object_set_new(metrics, "total_sandboxes", json_integer(kept));
    json_object_set_new(metrics, "active_sandboxes", json_integer(counts[SANDBOX_STATE_ACTIVE].count));
    json_object_set_new(metrics, "total_disk_usage_bytes", json_integer(count_total(counts, true)));
}

json_t *compat_health_make(struct service *service, const struct caller *caller, bool *ret_is_up)
{
    struct err failure = ERR_NONE;
    int64_t asked_ns = clock_now_ns();
    bool is_up = service_check(service, &failure) == 0;
    double latency_ms = (double) (clock_now_ns() - asked_ns) / CLOCK_NS_PER_MS;
    const char *status = is_up ? "healthy" : "unhealthy";

    *ret_is_up = is_up;
    if (!caller)
        return json_pack("{s:s}", "status", status);
    json_int_t uptime_sec = (clock_now_ns() - sandboxes_totals(service)->started_ns) / CLOCK_NS_PER_SEC;
    struct mallinfo2 heap = mallinfo2();
    json_t *database = json_pack("{s:b, s:f}", "connected", is_up, "latency_ms", latency_ms);
    if (!is_up)
        json_object_set_new(database, "error", json_string("the database does not answer"));
    json_t *answer =
        json_pack("{s:s, s:s, s:b, s:s, s:I, s:{s:o}, s:s, s:{s:f, s:I}}", "status", status, "service", "agentfense",
                  "readiness", is_up, "version", AGENTFENSE_VERSION, "uptime_seconds", uptime_sec, "dependencies", "database",
                  database, "driver", sandbox_driver_choose(service, "", NULL), "metrics", "heap_mb",
                  (double) (heap.uordblks + heap.hblkhd) / (1 << 20), "uptime_seconds", uptime_sec);
    compat_set_time(answer, "timestamp", clock_wall_ns());
    if (is_up)
        health_add_own(answer, service, caller);
    return answer;
}

/* Probes send no token. Even with a wrong token the caller may learn whether the server works. */
int compat_health(struct ws *ws, struct err *err)
{
    struct err ignored = ERR_NONE;
    bool is_up, is_known = gate_pass(ws->api, ws->web->call, &ignored) == 0;
    const struct caller caller = { .owner = is_known ? ws->web->call->owner : "",
                                   .is_admin = ws->web->call->is_admin,
                                   .cancel_fd = ws->caller.cancel_fd };
    json_t *answer = compat_health_make(ws->service, is_known ? &caller : NULL, &is_up);

    (void) err;
    return compat_answer(ws, is_up ? 200 : 503, answer);
}

/* ---- stats ---- */

int compat_stats(struct ws *ws, struct err *err)
{
    struct sandbox_count counts[SANDBOX_STATE_COUNT];
    int r = sandboxes_count(ws->service, &ws->caller, SANDBOX_BASE_DIRECTORY, counts, err);

    if (r < 0)
        return r;
    int64_t count = count_total(counts, false), bytes = count_total(counts, true);
    int64_t kept = count - counts[SANDBOX_STATE_DELETED].count;
    json_t *stats = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "totalCount", (json_int_t) count, "activeCount",
        (json_int_t) counts[SANDBOX_STATE_ACTIVE].count, "stoppedCount", (json_int_t) counts[SANDBOX_STATE_STOPPED].count,
        "errorCount", (json_int_t) counts[SANDBOX_STATE_ERROR].count, "approvedCount",
        (json_int_t) counts[SANDBOX_STATE_APPROVED].count, "rejectedCount", (json_int_t) counts[SANDBOX_STATE_REJECTED].count,
        "deletedCount", (json_int_t) counts[SANDBOX_STATE_DELETED].count, "totalSizeBytes", (json_int_t) bytes, "avgSizeBytes",
        kept > 0 ? (double) bytes / (double) kept : 0.0);
    json_t *answer = json_pack("{s:o}", "stats", stats);
    compat_set_time(answer, "timestamp", clock_wall_ns());
    return compat_answer(ws, 200, answer);
}

/* ---- metrics ---- */

static json_t *json_of_metrics(const struct stats_metric *metrics, int count)
{
    json_t *answer = json_object();

    for (int i = 0; i < count; i++)
        json_object_set_new(answer, metrics[i].json_name, json_real(metrics[i].value));
    return answer;
}

int compat_metrics(struct ws *ws, struct err *err)
{
    const char *format = web_query(ws->web, "format");
    struct stats_metric metrics[STATS_METRICS_MAX];
    int count = stats_metrics(ws->service, &ws->caller, metrics, err);

    if (count < 0)
        return count;
    if (format && strcmp(format, "json") == 0)
        return compat_answer(ws, 200, json_of_metrics(metrics, count));
    ws->web->response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    stats_metrics_add(metrics, count, &ws->web->response.body);
    return 0;
}

json_t *compat_metrics_make(struct service *service)
{
    struct stats_metric metrics[STATS_METRICS_MAX];
    int count = stats_metrics(service, &caller_system, metrics, &(struct err){ 0 });

    return count < 0 ? NULL : json_of_metrics(metrics, count);
}

/* ---- audit ---- */

/* Turns "sandbox_created", and "workspace_created" of older versions, into "created". */
static const char *audit_type(const char *type)
{
    static const char *const prefixes[] = { "sandbox_", "workspace_" };

    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (strncmp(type, prefixes[i], strlen(prefixes[i])) == 0)
            type += strlen(prefixes[i]);
    return strcmp(type, DESTROYED) == 0 ? "deleted" : type;
}

static json_t *make_audit_event(const struct event_info *event)
{
    static const char *const shown[] = { "actor", "actorType", "claimedActor", "sandboxState" };
    const char *type = event->type;
    json_t *payload = json_loads(event->payload, 0, NULL), *item;

    type = audit_type(type);
    /* No path of a sandbox's files begins with a slash, so no file has the same id. */
    autofree char *name = xprintf("/event/%" PRId64, event->sequence);
    char id[FILE_ID_LEN + 1] = "";
    file_id_make(event->sandbox_id, name, id);
    item = json_pack("{s:s, s:s}", "id", id, "eventType", type);
    if (*event->sandbox_id)
        json_object_set_new(item, "sandboxId", compat_uuid(event->sandbox_id));
    compat_set_time(item, "eventTime", event->time_ns);
    const json_t *actor = json_object_get(payload, "actor"), *kind = json_object_get(payload, "actorType");
    json_object_set_new(item, "actorType", kind ? json_incref((json_t *) (uintptr_t) kind) : json_string("system"));
    if (actor)
        json_object_set(item, "actor", (json_t *) (uintptr_t) actor);
    if (json_object_get(payload, "claimedActor"))
        json_object_set(item, "claimedActor", json_object_get(payload, "claimedActor"));
    json_t *state = json_object_get(payload, "sandboxState"), *details = json_object_get(payload, "details");
    if (state)
        json_object_set_new(item, "sandboxState", json_pack("{s:O}", "status", state));
    for (size_t i = 0; i < ARRAY_LEN(shown); i++)
        json_object_del(payload, shown[i]);
    if (details)
        json_object_set(item, "details", details); /* stored by older versions */
    else if (payload && json_object_size(payload) > 0)
        json_object_set(item, "details", payload);
    json_decref(payload);
    return item;
}

static int audit_answer(struct ws *ws, const char *id, struct err *err)
{
    autodone(event_page) struct event_page page = { 0 };
    int64_t limit = AUDIT_DEFAULT, offset = 0, total = 0;
    int r = compat_read_query(ws, err, { "limit", .number = &limit, .least = 0, .most = INT64_MAX },
                              { "offset", .number = &offset, .least = 0, .most = INT32_MAX });

    if (r < 0)
        return r;
    limit = limit == 0 ? AUDIT_DEFAULT : limit > AUDIT_MAX ? AUDIT_MAX : limit;
    r = events_window(ws->service, &ws->caller, id, (size_t) limit, (size_t) offset, &page, &total, err);
    if (r < 0)
        return r;
    json_t *list = json_array();
    for (size_t i = 0; i < page.count; i++)
        json_array_append_new(list, make_audit_event(&page.items[i]));
    json_t *answer = json_pack("{s:o, s:I, s:I, s:I, s:b, s:o}", "events", list, "total", (json_int_t) total, "limit",
                               (json_int_t) limit, "offset", (json_int_t) offset, "hasMore", total > offset + limit,
                               "sandboxId", *id ? compat_uuid(id) : json_string(""));
    compat_set_time(answer, "timestamp", clock_wall_ns());
    return compat_answer(ws, 200, answer);
}

int compat_audit(struct ws *ws, struct err *err)
{
    const char *given = web_query(ws->web, "sandbox_id");
    char id[SANDBOX_ID_MAX] = "";

    if (given && *given && sandbox_id_parse(given, id) < 0)
        return err_reject(err, -EINVAL, given, "is no id of a sandbox");
    return audit_answer(ws, id, err);
}

int compat_audit_one(struct ws *ws, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    int r = service_find_sandbox(ws->service, &ws->caller, ws->id, &row, err);

    return r < 0 ? r : audit_answer(ws, ws->id, err);
}

/* ---- what this is ---- */

/* Introduces the server to anybody who opens the port. */

int compat_about(struct ws *ws, struct err *err)
{
    (void) err;
    return compat_answer(ws, 200,
                         json_pack("{s:s, s:s, s:s, s:s, s:s, s:{s:s, s:s, s:s, s:s, s:s}, s:s}", "service", "agentfense",
                                   "version", AGENTFENSE_VERSION, "description",
                                   "sandboxes over live directories, whose changes are reviewed before they are applied",
                                   "apiVersion", "v1", "basePath", "/api/v1", "endpoints", "health", "/api/v1/health",
                                   "sandboxes", "/api/v1/sandboxes", "driver", "/api/v1/driver/info", "stats", "/api/v1/stats",
                                   "metrics", "/api/v1/metrics", "documentation", "/openapi.json"));
}
