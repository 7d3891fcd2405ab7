#include "server/pages.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace_routes.h"
#include "api/gate.h"
#include "base/mem.h"
#include "server/server.h"
#include "service/stats.h"

/* Answers in the format of the methods' errors. */
static void page_answer_error(struct web *web, const struct err *err)
{
    if (err->code == ERR_UNAUTHENTICATED)
        web_add_header(web, "WWW-Authenticate", "Bearer");
    web_answer_json(web, err_code_http_status(err->code),
                    json_pack("{s:i, s:s, s:[]}", "code", (int) err->code, "message", err->text, "details"));
}

/* Reports whether the server works, for load balancers and people. Authenticated callers get the answer of /api/v1/health.
 * Others get only one word, and a different one than workspaces use. */
static void show_health(struct web *web, void *cookie)
{
    struct server *server = cookie;
    struct err ignored = ERR_NONE;
    bool is_up, is_known = gate_pass(&server->api, web->call, &ignored) == 0;
    const struct caller caller = { .owner = is_known ? web->call->owner : "",
                                   .is_admin = web->call->is_admin,
                                   .cancel_fd = -1 };
    json_t *health = compat_health_make(server->service, is_known ? &caller : NULL, &is_up);

    if (!is_known)
        json_object_set_new(health, "status", json_string(is_up ? "ok" : "unavailable"));
    web_answer_json(web, is_up ? 200 : 503, health);
}

static void add_interface_metrics(struct server *server, struct buf *out)
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

static void show_metrics(struct web *web, void *cookie)
{
    struct server *server = cookie;
    struct buf *out = &web->response.body;
    const char *format = web_query(web, "format");
    struct err err = ERR_NONE;
    int r = gate_pass(&server->api, web->call, &err);

    /* It counts the sandboxes of all owners. */
    if (r == 0 && !web->call->is_admin)
        r = err_set(&err, ERR_PERMISSION_DENIED, -EPERM,
                    "what the whole server counts is for its administrators; /api/v1/metrics has what is yours");
    if (r < 0) {
        page_answer_error(web, &err);
        return;
    }
    json_t *workspaces = format && strcmp(format, "json") == 0 ? compat_metrics_make(server->service) : NULL;

    if (workspaces) {
        web_answer_json(web, 200, workspaces);
        return;
    }
    web->response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    metrics_add_head(out, "agentfense_build_info", "gauge", "The version that runs.");
    metrics_add_value(out, "agentfense_build_info", "version=\"" AGENTFENSE_VERSION "\"", 1);
    metrics_add_calls(server->metrics, out);
    add_interface_metrics(server, out);
    stats_add(server->service, out);
    stats_add_metrics(server->service, out);
}

const struct web_route page_routes[] = {
    { .verb = "GET", .path = "/health", .run = show_health },
    { .verb = "GET", .path = "/metrics", .run = show_metrics },
};
const size_t page_route_count = ARRAY_LEN(page_routes);
