#include "service/stats.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "service/service_int.h"
#include "wire/ctl_client.h"

#define ASK_MS 1000

/* Sums over all running sandboxes, as their supervisors count. */
struct totals {
    uint64_t execs, sessions, used_bytes, requests, denials, dropped, answered, silent;
};

static void ask(struct sandbox_conn *conn, void *cookie)
{
    struct ctl_request request = { .type = CTL_REQUEST_STATUS, .tag = 1 };
    struct totals *totals = cookie;
    autofree char *payload = malloc(FRAME_PAYLOAD_MAX);
    struct err ignored = ERR_NONE;
    struct ctl_reply reply;
    autofd int fd = -1;

    if (!payload || sandbox_conn_take_fd(conn, &fd, &ignored) < 0 ||
        ctl_client_call(fd, &request, -1, &reply, payload, ASK_MS, &ignored) < 0 || reply.type != CTL_REPLY_STATUS) {
        totals->silent++;
        return;
    }
    sandbox_conn_give_fd(conn, steal_fd(&fd));
    totals->answered++;
    totals->execs += reply.status.execs;
    totals->sessions += reply.status.sessions;
    totals->used_bytes += reply.status.used_bytes;
    totals->requests += reply.status.fence_requests;
    totals->denials += reply.status.denials;
    totals->dropped += reply.status.denials_dropped;
}

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_addf(out, "# HELP agentfense_%s %s\n# TYPE agentfense_%s %s\n", name, help, name, type);
}

static void one(struct buf *out, const char *name, const char *help, uint64_t value)
{
    head(out, name, "gauge", help);
    buf_addf(out, "agentfense_%s %" PRIu64 "\n", name, value);
}

static void add_sandboxes(struct service *service, struct buf *out)
{
    head(out, "sandboxes", "gauge", "Sandboxes of this host, by state.");
    for (int status = SANDBOX_STATUS_PENDING; status < SANDBOX_STATUS_COUNT; status++) {
        struct sandbox_filter filter = { .host_id = service->host_id, .statuses = SANDBOX_STATUS_BIT(status) };
        struct err ignored = ERR_NONE;
        int64_t count;

        if (sandbox_row_count(service->store, &filter, &count, &ignored) >= 0)
            buf_addf(out, "agentfense_sandboxes{state=\"%s\"} %" PRId64 "\n", sandbox_status_name((enum sandbox_status) status),
                     count);
    }
}

static void add_store(struct service *service, struct buf *out)
{
    autofree struct store_stats *stats = xnew(struct store_stats);

    store_stats(service->store, stats);
    head(out, "store_call_duration_seconds", "histogram", "How long calls of the database took.");
    for (size_t i = 0; i < STORE_CALL_CALL_COUNT; i++) {
        const struct store_call_stats *call = &stats->calls[i];
        uint64_t below = 0;

        if (call->count == 0)
            continue;
        for (size_t b = 0; b + 1 < STORE_CALL_BUCKETS; b++) {
            below += call->buckets[b];
            buf_addf(out, "agentfense_store_call_duration_seconds_bucket{call=\"%s\",le=\"%g\"} %" PRIu64 "\n", call->name,
                     (double) store_metrics_bucket_end_ns((unsigned) b) / 1e9, below);
        }
        buf_addf(out, "agentfense_store_call_duration_seconds_bucket{call=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", call->name,
                 call->count);
        buf_addf(out, "agentfense_store_call_duration_seconds_sum{call=\"%s\"} %g\n", call->name, (double) call->sum_ns / 1e9);
        buf_addf(out, "agentfense_store_call_duration_seconds_count{call=\"%s\"} %" PRIu64 "\n", call->name, call->count);
    }
    head(out, "store_commits_total", "counter", "Transactions that wrote.");
    buf_addf(out, "agentfense_store_commits_total %" PRIu64 "\n", stats->commits);
}

void stats_add(struct service *service, struct buf *out)
{
    struct totals totals = { 0 };

    add_sandboxes(service, out);
    sandbox_conns_each_running(&service->conns, ask, &totals);
    one(out, "execs_running", "Commands that run now.", totals.execs);
    one(out, "sessions_open", "Sessions that are open.", totals.sessions);
    one(out, "delta_bytes", "Bytes that running sandboxes changed and did not sync.", totals.used_bytes);
    one(out, "fence_requests", "File operations that the fences of running sandboxes answered.", totals.requests);
    one(out, "denials", "File operations that they refused.", totals.denials);
    one(out, "denials_dropped", "Refusals that were too many to be told one by one.", totals.dropped);
    one(out, "supervisors_silent", "Running sandboxes whose supervisor did not answer just now.", totals.silent);
    add_store(service, out);
}

/* ---- sandboxes over directories ---- */

static int64_t stats_changed_bytes(const struct sandbox_count counts[SANDBOX_STATE_COUNT])
{
    int64_t sum = 0;

    for (int i = 0; i < SANDBOX_STATE_COUNT; i++)
        sum += i != SANDBOX_STATE_DELETED ? counts[i].size_bytes : 0;
    return sum;
}

static double stats_average_ms(uint64_t sum_ns, uint64_t count)
{
    return count > 0 ? (double) sum_ns / (double) count / CLOCK_NS_PER_MS : 0;
}

int stats_metrics(struct service *service, const struct caller *caller, struct stats_metric ret[STATS_METRICS_MAX],
                  struct err *err)
{
    const struct sandbox_totals *t = sandboxes_totals(service);
    struct sandbox_count counts[SANDBOX_STATE_COUNT];
    int r = sandboxes_count(service, caller, SANDBOX_BASE_DIRECTORY, counts, err);

    if (r < 0)
        return r;
    const struct stats_metric own[] = {
        { "active", "active_sandboxes", "gauge", "Sandboxes that are active.", (double) counts[SANDBOX_STATE_ACTIVE].count },
        { "disk_usage_bytes", "total_disk_usage_bytes", "gauge", "Bytes of their changes.",
          (double) stats_changed_bytes(counts) },
    };
    const struct stats_metric all[] = {
        { "created_total", "sandbox_created_total", "counter", "Sandboxes that were made.", (double) t->created },
        { "stopped_total", "sandbox_stopped_total", "counter", "Sandboxes that were stopped.", (double) t->stopped },
        { "approved_total", "sandbox_approved_total", "counter", "Sandboxes that were approved.", (double) t->approved },
        { "rejected_total", "sandbox_rejected_total", "counter", "Sandboxes that were rejected.", (double) t->rejected },
        { "deleted_total", "sandbox_deleted_total", "counter", "Sandboxes that were deleted.", (double) t->deleted },
        { "errors_total", "sandbox_errors_total", "counter", "Sandboxes that failed.", (double) t->errors },
        { "gc_runs_total", "gc_runs_total", "counter", "Collections.", (double) t->gc_runs },
        { "gc_sandboxes_deleted_total", "gc_sandboxes_deleted_total", "counter", "Sandboxes that were collected.",
          (double) t->gc_deleted },
        { "diff_generations_total", "diff_generations_total", "counter", "Diffs that were made.", (double) t->diffs },
        { "patch_applications_total", "patch_applications_total", "counter", "Approvals that were applied.",
          (double) t->patches },
        { "processes", "process_count", "gauge", "Commands that run in them.", (double) sandboxes_processes(service) },
        { "create_latency_ms", "create_latency_ms", "gauge", "How long making one took, on average.",
          stats_average_ms(t->create_ns, t->created) },
        { "diff_latency_ms", "diff_latency_ms", "gauge", "How long a diff took, on average.",
          stats_average_ms(t->diff_ns, t->diffs) },
    };
    static_assert(ARRAY_LEN(own) + ARRAY_LEN(all) == STATS_METRICS_MAX, "room for all of them");
    memcpy(ret, own, sizeof(own));
    if (!caller->is_admin)
        return ARRAY_LEN(own);
    memcpy(ret + ARRAY_LEN(own), all, sizeof(all));
    return STATS_METRICS_MAX;
}

void stats_metrics_add(const struct stats_metric *metrics, int count, struct buf *out)
{
    for (const struct stats_metric *m = metrics; m < metrics + count; m++)
        buf_addf(out, "# HELP workspace_sandbox_%s %s\n# TYPE workspace_sandbox_%s %s\nworkspace_sandbox_%s %.15g\n", m->name,
                 m->help, m->name, m->type, m->name, m->value);
}

void stats_add_metrics(struct service *service, struct buf *out)
{
    struct stats_metric metrics[STATS_METRICS_MAX];
    int count = stats_metrics(service, &caller_system, metrics, &(struct err){ 0 });

    stats_metrics_add(metrics, count < 0 ? 0 : count, out);
}
