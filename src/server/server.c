#include "server/server.h"

#include <api_descriptors.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "api/compat_workspace_routes.h"
#include "api/methods.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/config_service.h"
#include "server/pages.h"
#include "server/private.h"

/* ---- service ---- */

/* Asks the private server to end if it holds the state directory and has no clients. */
static int server_open_service(struct server *server, struct err *err)
{
    struct service_options options = config_service(server->config);
    int r = service_new(&options, &server->service, err), way;

    if (r != -EBUSY)
        return r;
    way = private_give_way(options.mount_path);
    if (way > 0)
        return service_new(&options, &server->service, err);
    if (way < 0)
        return err_set(
            err, ERR_FAILED_PRECONDITION, r,
            "commands that run now use the sandboxes in '%s', by a private server of theirs: wait until they are over, or "
            "end them",
            options.mount_path);
    return r;
}

static void server_fill_api(struct server *server)
{
    const struct config_list *list = &server->config->allowed_uids;

    server->uids = xalloc((list->count + 1) * sizeof(*server->uids));
    server->uids[0] = geteuid();
    for (size_t i = 0; i < list->count; i++)
        server->uids[i + 1] = (uid_t) strtoul(list->items[i], NULL, 10);
    server->api = (struct api){
        .service = server->service,
        .allowed_uids = server->uids,
        .allowed_uid_count = list->count + 1,
        .needs_token = server->config->is_private,
    };
    server->methods.methods = api_methods(&server->methods.count);
    server->methods.cookie = &server->api;
    server->metrics = metrics_new(&server->methods);
}

/* ---- listeners ---- */

/* "localhost:9000" means two addresses. The second may be missing on a host. */
static int open_address(struct listener *list, size_t *count, const char *address, struct err *err)
{
    static const char local[] = "localhost:";
    int r;

    if (!*address || *count + 2 > SERVER_LISTENERS_MAX)
        return 0;
    if (strncmp(address, local, strlen(local)) != 0) {
        r = listener_open(&list[*count], address, 0, err);
        *count += r == 0;
        return r;
    }
    autofree char *four = xprintf("127.0.0.1:%s", address + strlen(local));
    r = listener_open(&list[*count], four, 0, err);
    if (r < 0)
        return r;
    (*count)++;
    /* Both use the same port, also if the configuration leaves it to the kernel. */
    autofree char *six = xprintf("[::1]:%s", strrchr(list[*count - 1].text, ':') + 1);
    struct err ignored = ERR_NONE;
    r = listener_open(&list[*count], six, 0, &ignored);
    if (r == 0)
        (*count)++;
    else
        log_debug("not listening by IPv6", LOG_STR("address", six), LOG_STR("error", ignored.text));
    return 0;
}

/* Adopts sockets from systemd: REST uses those named "http", gRPC the others. Returns how many. */
static int server_adopt_sockets(struct server *server, struct err *err)
{
    char **names = NULL;
    int count = sd_listen_fds_with_names(1, &names), r = 0;

    for (int i = 0; r == 0 && i < count; i++) {
        bool is_http = strcmp(names[i], "http") == 0;
        size_t *at = is_http ? &server->http_count : &server->grpc_count;
        struct listener *list = is_http ? server->http : server->grpc;

        if (*at == SERVER_LISTENERS_MAX)
            r = err_set(err, ERR_FAILED_PRECONDITION, -E2BIG, "more sockets were handed over than are served");
        else
            r = listener_adopt(&list[*at], SD_LISTEN_FDS_START + i, err);
        *at += r == 0;
    }
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    return r < 0 ? r : count;
}

static int server_open_listeners(struct server *server, struct err *err)
{
    const struct config *config = server->config;
    autofree char *path = *config->unix_socket ? xprintf("unix:%s", config->unix_socket) : xdup("");
    int r = server_adopt_sockets(server, err);

    if (r != 0)
        return r < 0 ? r : 0;
    r = open_address(server->grpc, &server->grpc_count, config->grpc_addr, err);
    if (r == 0)
        r = open_address(server->grpc, &server->grpc_count, path, err);
    if (r == 0)
        r = open_address(server->http, &server->http_count, config->http_addr, err);
    return r;
}

static int server_open_tls(struct server *server, struct err *err)
{
    const struct config *config = server->config;

    if (!*config->tls_cert)
        return 0;
    server->tls_files = (struct tls_files){
        .certificate = config->tls_cert,
        .key = config->tls_key,
        .client_ca = *config->tls_client_ca ? config->tls_client_ca : NULL,
    };
    return tls_new(&server->tls_files, &server->tls, err);
}

/* ---- interfaces ---- */

static void on_grpc_end(void *cookie, const struct rpc_call_end *end)
{
    metrics_count_call(cookie, end->method, end->code, end->duration_ns);
}

static void on_http_end(const struct method *method, enum err_code code, int64_t ns, void *cookie)
{
    metrics_count_call(cookie, method, code, ns);
}

static int server_start_grpc(struct server *server, struct err *err)
{
    struct rpc_options options = {
        .listeners = server->grpc,
        .listener_count = server->grpc_count,
        .tls = server->tls,
        .pool = server->pool,
        .methods = &server->methods,
        .descriptors = api_descriptors,
        .descriptors_len = api_descriptors_len,
        .on_call_end = on_grpc_end,
        .on_call_end_cookie = server->metrics,
    };
    int r = server->grpc_count > 0 ? rpc_server_new(&options, &server->rpc, err) : 0;

    return r < 0 || !server->rpc ? r : rpc_server_start(server->rpc, err);
}

static int server_start_rest(struct server *server, struct err *err)
{
    const struct config *config = server->config;
    const struct web_table pages = { .routes = page_routes, .count = page_route_count, .cookie = server };
    struct http_server_options options = {
        .methods = &server->methods,
        .web = compat_routes_make(&server->api),
        .pool = server->pool,
        .pages = &pages,
        .openapi_title = "AgentFense",
        .openapi_version = AGENTFENSE_VERSION,
        .tls = server->tls ? &server->tls_files : NULL,
        .host_names = (const char *const *) config->allowed_hosts.items,
        .origins = (const char *const *) config->allowed_origins.items,
        .on_call_end = on_http_end,
        .on_call_end_cookie = server->metrics,
    };
    int r;

    if (server->http_count == 0)
        return 0;
    r = http_server_new(&options, &server->rest, err);
    for (size_t i = 0; r == 0 && i < server->http_count; i++)
        r = http_server_listen(server->rest, &server->http[i], server->tls && !server->http[i].is_unix, err);
    return r < 0 ? r : http_server_start(server->rest, err);
}

static void log_listeners(const char *what, const struct listener *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        log_info("listening", LOG_STR("interface", what), LOG_STR("address", list[i].text));
}

int server_start(struct server *server, const struct config *config, struct err *err)
{
    int r;

    *server = (struct server){ .config = config, .started_ns = clock_wall_ns() };
    for (size_t i = 0; i < SERVER_LISTENERS_MAX; i++)
        server->grpc[i] = server->http[i] = LISTENER_NONE;
    r = server_open_tls(server, err);
    if (r == 0)
        r = server_open_service(server, err);
    if (r == 0)
        r = server_open_listeners(server, err);
    if (r == 0)
        r = pool_new(0, 0, &server->pool, err);
    if (r < 0)
        return r;
    server_fill_api(server);
    r = server_start_grpc(server, err);
    if (r == 0)
        r = server_start_rest(server, err);
    if (r < 0)
        return r;
    log_listeners("grpc", server->grpc, server->grpc_count);
    log_listeners("http", server->http, server->http_count);
    return 0;
}

int server_reload(struct server *server, struct err *err)
{
    int r = server->tls ? tls_reload(server->tls, err) : 0;

    return r == 0 && server->rest ? http_server_reload(server->rest, err) : r;
}

void server_drain(struct server *server)
{
    int64_t drain_ms = server->config->drain_ns / CLOCK_NS_PER_MS;
    int grace_ms = drain_ms < INT_MAX ? (int) drain_ms : INT_MAX;
    int64_t until = clock_now_ns() + grace_ms * CLOCK_NS_PER_MS;

    /* Calls that are cancelled a little too early count as cancelled by the shutdown, too. */
    service_end_at(server->service, until - 100 * CLOCK_NS_PER_MS);
    if (server->rpc)
        rpc_server_drain(server->rpc, grace_ms);
    if (server->rest) {
        int64_t left = (until - clock_now_ns()) / CLOCK_NS_PER_MS;
        http_server_stop(server->rest, left > 0 ? (unsigned) left : 0);
    }
}

void server_done(struct server *server)
{
    rpc_server_free(server->rpc);
    http_server_free(server->rest);
    pool_free(server->pool);
    service_free(server->service);
    for (size_t i = 0; i < SERVER_LISTENERS_MAX; i++) {
        listener_done(&server->grpc[i]);
        listener_done(&server->http[i]);
    }
    tls_free(server->tls);
    metrics_free(server->metrics);
    free(server->uids);
}
