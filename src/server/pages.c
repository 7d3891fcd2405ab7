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

static void take_json(struct rest_response *response, json_t *value)
{
    autofree char *text = json_dumps(value, JSON_COMPACT);

    buf_addf(&response->body, "%s\n", text);
    json_decref(value);
}

/* As errors of methods look. */
static void refuse(struct rest_response *response, const struct err *err)
{
    response->status = err_code_http_status(err->code);
    if (err->code == ERR_UNAUTHENTICATED)
        rest_response_add_header(response, "WWW-Authenticate", "Bearer");
    take_json(response, json_pack("{s:i, s:s, s:[]}", "code", (int) err->code, "message", err->text, "details"));
}

/* Whether it can do its work: for those who route to it, and for a look in the evening. Who gets in is told what /api/v1/health tells; everybody
 * else, a probe or a stranger, with one word, which is not the one that workspaces use. */
static void show_health(const struct rest_request *request, struct rest_response *response, void *cookie)
{
    struct server *server = cookie;
    struct err ignored = ERR_NONE;
    bool is_up, is_known = gate_pass(&server->api, request->call, &ignored) == 0;
    const struct caller caller = { .owner = is_known ? request->call->owner : "",
                                   .is_admin = request->call->is_admin,
                                   .cancel_fd = -1 };
    json_t *health = compat_health_make(server->service, is_known ? &caller : NULL, &is_up);

    if (!is_known)
        json_object_set_new(health, "status", json_string(is_up ? "ok" : "unavailable"));
    if (!is_up)
        response->status = 503;
    take_json(response, health);
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

/* "a=b&format=json" */
static bool wants_json(const char *query)
{
    static const char wanted[] = "format=json";

    for (; query; query = strchr(query, '&') ? strchr(query, '&') + 1 : NULL)
        if (strncmp(query, wanted, sizeof(wanted) - 1) == 0 && strchr("&", query[sizeof(wanted) - 1]))
            return true;
    return false;
}

static void show_metrics(const struct rest_request *request, struct rest_response *response, void *cookie)
{
    struct server *server = cookie;
    struct err err = ERR_NONE;
    int r = gate_pass(&server->api, request->call, &err);

    /* It counts what all owners have. */
    if (r == 0 && !request->call->is_admin)
        r = err_set(&err, ERR_PERMISSION_DENIED, -EPERM,
                    "what the whole server counts is for its administrators; /api/v1/metrics has what is yours");
    if (r < 0) {
        refuse(response, &err);
        return;
    }
    json_t *workspaces = wants_json(request->query) ? compat_metrics_make(server->service) : NULL;

    if (workspaces) {
        take_json(response, workspaces);
        return;
    }
    response->content_type = "text/plain; version=0.0.4; charset=utf-8";
    metrics_add_head(&response->body, "agentfense_build_info", "gauge", "The version that runs.");
    metrics_add_value(&response->body, "agentfense_build_info", "version=\"" AGENTFENSE_VERSION "\"", 1);
    metrics_add_calls(server->metrics, &response->body);
    add_carriers(server, &response->body);
    stats_add(server->service, &response->body);
    compat_metrics_add(server->service, &response->body);
}

const struct rest_page *pages_make(struct server *server, size_t *ret_count)
{
    static struct rest_page pages[2];

    pages[0] = (struct rest_page){ "GET", "/health", show_health, server };
    pages[1] = (struct rest_page){ "GET", "/metrics", show_metrics, server };
    *ret_count = ARRAY_LEN(pages);
    return pages;
}
