#include "server/pages.h"

#include <inttypes.h>

#include "api/ws_routes.h"
#include "base/clock.h"
#include "base/mem.h"
#include "server/server.h"
#include "service/stats.h"

/* Whether it can do its work: for those who route to it, and for a look in the evening. */
static void show_health(const struct rest_request *request, struct rest_response *response, void *cookie)
{
    struct server *server = cookie;
    struct err err = ERR_NONE;

    (void) request;
    if (service_check(server->service, &err) < 0) {
        response->status = 503;
        buf_add_str(&response->body, "{\"status\":\"unavailable\",\"reason\":\"the database does not answer\"}\n");
        return;
    }
    buf_addf(&response->body, "{\"status\":\"ok\",\"version\":\"%s\",\"uptime_seconds\":%" PRId64 "}\n", AGENTFENSE_VERSION,
             (int64_t) ((clock_wall_ns() - server->started_ns) / CLOCK_NS_PER_SEC));
}

static void add_carriers(struct server *server, struct buf *out)
{
    struct rpc_stats grpc = { 0 };
    struct http_server_stats http = { 0 };
    struct pool_stats pool;

    if (server->rpc)
        rpc_server_stats(server->rpc, &grpc);
    if (server->rest)
        http_server_stats(server->rest, &http);
    pool_stats(server->pool, &pool);
    metrics_add_head(out, "agentfense_connections", "gauge", "Connections that are open.");
    metrics_add_value(out, "agentfense_connections", "interface=\"grpc\"", grpc.connections);
    metrics_add_value(out, "agentfense_connections", "interface=\"http\"", http.connections);
    metrics_add_head(out, "agentfense_connections_refused_total", "counter", "Connections that were refused.");
    metrics_add_value(out, "agentfense_connections_refused_total", "interface=\"grpc\"", grpc.connections_refused);
    metrics_add_value(out, "agentfense_connections_refused_total", "interface=\"http\"", http.refused);
    metrics_add_head(out, "agentfense_grpc_bytes_total", "counter", "Bytes of HTTP/2.");
    metrics_add_value(out, "agentfense_grpc_bytes_total", "direction=\"in\"", grpc.bytes_in);
    metrics_add_value(out, "agentfense_grpc_bytes_total", "direction=\"out\"", grpc.bytes_out);
    metrics_add_head(out, "agentfense_handler_threads", "gauge", "Threads for calls, and calls that wait for one.");
    metrics_add_value(out, "agentfense_handler_threads", "state=\"busy\"", pool.busy);
    metrics_add_value(out, "agentfense_handler_threads", "state=\"idle\"", pool.threads - pool.busy);
    metrics_add_value(out, "agentfense_handler_threads", "state=\"waited_for\"", pool.waiting);
}

static void show_metrics(const struct rest_request *request, struct rest_response *response, void *cookie)
{
    struct server *server = cookie;

    (void) request;
    response->content_type = "text/plain; version=0.0.4; charset=utf-8";
    metrics_add_head(&response->body, "agentfense_build_info", "gauge", "The version that runs.");
    metrics_add_value(&response->body, "agentfense_build_info", "version=\"" AGENTFENSE_VERSION "\"", 1);
    metrics_add_calls(server->metrics, &response->body);
    add_carriers(server, &response->body);
    stats_add(server->service, &response->body);
    ws_metrics_add(server->service, &response->body);
}

const struct rest_extra *pages_make(struct server *server, size_t *ret_count)
{
    static struct rest_extra pages[2];

    pages[0] = (struct rest_extra){ "GET", "/health", show_health, server };
    pages[1] = (struct rest_extra){ "GET", "/metrics", show_metrics, server };
    *ret_count = ARRAY_LEN(pages);
    return pages;
}
