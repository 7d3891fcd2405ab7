#include "rest/http_server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "rest/exchange_int.h"
#include "rest/field.h"
#include "rest/openapi.h"

#define ANSWER_MS 1000
#define PEM_MAX ((size_t) 1 << 20)
#define CONNECTION_MEMORY_BYTES ((size_t) 64 << 10) /* all headers of a request, and what is being sent */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:%SERVER_PRECEDENCE"

static void http_server_set_defaults(struct http_server_options *options)
{
    if (!options->connections_max)
        options->connections_max = 1000;
    if (!options->peer_connections_max)
        options->peer_connections_max = 100;
    if (!options->header_timeout_ms)
        options->header_timeout_ms = 30000;
    if (!options->body_timeout_ms)
        options->body_timeout_ms = 30000;
    if (!options->write_timeout_ms)
        options->write_timeout_ms = 60000;
    if (!options->heartbeat_ms)
        options->heartbeat_ms = 15000;
}

/* Finds mistakes in the table that would otherwise show only in a call. */
static int http_server_check_methods(const struct method_table *methods, struct err *err)
{
    for (size_t i = 0; i < methods->count; i++) {
        const struct method *method = &methods->methods[i];

        for (size_t j = 0; j < METHOD_ROUTES_MAX && method->routes[j].verb; j++) {
            const struct method_route *method_route = &method->routes[j];

            if (method_route->body == METHOD_BODY_BYTES && (!field_find(method->request, "metadata", strlen("metadata")) ||
                                                            !field_find(method->request, "data", strlen("data"))))
                return err_invalid(err, "%s %s: the request has no fields 'metadata' and 'data'", method_route->verb,
                                   method_route->path);
            if (method_route->answer == METHOD_ANSWER_BYTES && !field_find(method->response, "data", strlen("data")))
                return err_invalid(err, "%s %s: the answer has no field 'data'", method_route->verb, method_route->path);
            if (method_route->answer == METHOD_ANSWER_JSON && (method->flags & METHOD_SERVER_STREAMS))
                return err_invalid(err, "%s %s: a stream of answers is no JSON", method_route->verb, method_route->path);
        }
    }
    return 0;
}

/* Few clients read it, so it is made for the first. */
static void http_server_serve_openapi(struct web *web, void *cookie)
{
    struct http_server *server = cookie;
    const struct http_server_options *options = &server->options;

    pthread_mutex_lock(&server->lock);
    if (server->openapi.len == 0)
        openapi_add(&server->openapi, options->methods, options->web, options->openapi_title, options->openapi_version);
    buf_add(&web->response.body, server->openapi.data, server->openapi.len);
    pthread_mutex_unlock(&server->lock);
}

static const struct web_route openapi_route = { .verb = "GET", .path = "/openapi.json", .run = http_server_serve_openapi };

static int http_server_make_routes(struct http_server *server, struct err *err)
{
    const struct http_server_options *options = &server->options;
    const struct web_table openapi = { .routes = &openapi_route, .count = 1, .cookie = server };
    const struct web_table *webs[4] = { NULL };
    size_t count = 0;

    if (options->web)
        webs[count++] = options->web;
    if (options->pages)
        webs[count++] = options->pages;
    if (options->openapi_title)
        webs[count++] = &openapi;
    return route_table_new(options->methods, webs, &server->routes, err);
}

static bool http_server_adopt(void *cookie, int fd, const struct peer *peer, bool with_tls)
{
    struct http_server *server = cookie;
    struct MHD_Daemon *daemon = server->plain;

    if (with_tls) {
        pthread_mutex_lock(&server->lock);
        daemon = server->https->daemon;
        pthread_mutex_unlock(&server->lock);
    }
    return MHD_add_connection(daemon, fd, (const struct sockaddr *) &peer->remote, sizeof(peer->remote)) == MHD_YES;
}

static int http_server_make_watch(struct http_server *server, struct err *err)
{
    const struct conn_watch_options options = {
        .connections_max = server->options.connections_max,
        .peer_connections_max = server->options.peer_connections_max,
        .header_timeout_ms = server->options.header_timeout_ms,
        .adopt = http_server_adopt,
        .cookie = server,
    };

    return conn_watch_new(&options, &server->watch, err);
}

int http_server_new(const struct http_server_options *options, struct http_server **ret, struct err *err)
{
    autoptr(http_server) server = xnew(struct http_server);
    pthread_condattr_t clock;
    int r;

    server->options = *options;
    http_server_set_defaults(&server->options);
    pthread_mutex_init(&server->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&server->idle, &clock);
    pthread_condattr_destroy(&clock);
    r = http_server_check_methods(options->methods, err);
    if (r < 0)
        return r;
    r = http_server_make_routes(server, err);
    if (r == 0)
        r = http_server_make_watch(server, err);
    if (r < 0)
        return r;
    *ret = steal_ptr(&server);
    return 0;
}

int http_server_listen(struct http_server *server, const struct listener *listener, bool with_tls, struct err *err)
{
    int r;

    if (with_tls && !server->options.tls)
        return err_invalid(err, "listening on %s with TLS needs a certificate", listener->text);
    r = conn_watch_add_listener(server->watch, listener, with_tls, err);
    if (r < 0)
        return r;
    server->has_plain |= !with_tls;
    server->has_secure |= with_tls;
    return 0;
}

static void *http_server_on_target(void *cookie, const char *target, struct MHD_Connection *connection)
{
    (void) connection;
    return exchange_new(cookie, target);
}

static enum MHD_Result http_server_on_request(void *cookie, struct MHD_Connection *connection, const char *url,
                                              const char *verb, const char *version, const char *body, size_t *body_len,
                                              void **context)
{
    struct exchange *exchange = *context;
    (void) cookie;

    if (!exchange)
        return MHD_NO;
    if (!exchange_is_open(exchange))
        return exchange_open(exchange, connection, url, verb, version);
    return *body_len > 0 ? exchange_receive_body(exchange, body, body_len) : exchange_proceed(exchange);
}

static void http_server_on_completed(void *cookie, struct MHD_Connection *connection, void **context,
                                     enum MHD_RequestTerminationCode how)
{
    (void) cookie, (void) connection;
    if (*context)
        exchange_close(*context, how == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    *context = NULL;
}

static void http_server_on_connection(void *cookie, struct MHD_Connection *connection, void **context,
                                      enum MHD_ConnectionNotificationCode what)
{
    struct http_server *server = cookie;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *context = info ? conn_watch_find(server->watch, info->connect_fd) : NULL;
    } else if (*context) {
        conn_watch_forget(server->watch, *context);
        *context = NULL;
    }
}

/* We decode paths and queries after splitting them. */
static size_t leave_as_it_is(void *cookie, struct MHD_Connection *connection, char *text)
{
    (void) cookie, (void) connection;
    return strlen(text);
}

static void http_server_on_log(void *cookie, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

/* Mistakes of clients do not concern the operator. */
static void http_server_on_log(void *cookie, const char *fmt, va_list ap)
{
    char text[512];
    (void) cookie;

    if (!log_is_on(LOG_LEVEL_DEBUG))
        return;
    vsnprintf(text, sizeof(text), fmt, ap);
    log_debug("http", LOG_STR("text", text));
}

/* A library that is too old for the first option is not strict enough with the second; request_head.h checks the rest. */
#if MHD_VERSION >= 0x00097701
#define STRICTNESS MHD_OPTION_CLIENT_DISCIPLINE_LVL, 2
#else
#define STRICTNESS MHD_OPTION_STRICT_FOR_CLIENT, 1
#endif

/* Without TLS if `https` is NULL. */
static int http_server_start_daemon(struct http_server *server, const struct https *https, struct MHD_Daemon **ret,
                                    struct err *err)
{
    const struct http_server_options *options = &server->options;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_ALLOW_UPGRADE |
                     MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {
        { MHD_OPTION_HTTPS_MEM_KEY, 0, https ? https->key.data : NULL },
        { MHD_OPTION_HTTPS_MEM_CERT, 0, https ? https->certificate.data : NULL },
        { MHD_OPTION_HTTPS_PRIORITIES, 0, (void *) (uintptr_t) TLS_PRIORITIES },
        { https && https->client_ca.data ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0,
          https ? https->client_ca.data : NULL },
        { MHD_OPTION_END, 0, NULL },
    };
    const struct MHD_OptionItem none[] = { { MHD_OPTION_END, 0, NULL } };

    /* The log comes first, so that it gets messages about the other options. conn_watch enforces the limits; libmicrohttpd's are higher. */
    *ret = MHD_start_daemon(
        flags | (https ? MHD_USE_TLS : 0), 0, NULL, NULL, http_server_on_request, server, MHD_OPTION_EXTERNAL_LOGGER,
        http_server_on_log, NULL, MHD_OPTION_CONNECTION_LIMIT, (unsigned) options->connections_max + 16,
        MHD_OPTION_CONNECTION_TIMEOUT, (options->write_timeout_ms + 999) / 1000, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        CONNECTION_MEMORY_BYTES, STRICTNESS, MHD_OPTION_NOTIFY_COMPLETED, http_server_on_completed, server,
        MHD_OPTION_NOTIFY_CONNECTION, http_server_on_connection, server, MHD_OPTION_URI_LOG_CALLBACK, http_server_on_target,
        server, MHD_OPTION_UNESCAPE_CALLBACK, leave_as_it_is, NULL, MHD_OPTION_ARRAY, https ? tls : none, MHD_OPTION_END);
    if (!*ret)
        return err_set(err, https ? ERR_INVALID_ARGUMENT : ERR_INTERNAL, -EINVAL,
                       https ? "HTTPS cannot be served: certificate and key do not fit, or are none" : "HTTP cannot be served");
    return 0;
}

static int read_pem(const char *path, struct buf *out, struct err *err)
{
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : fd_read_all(fd, PEM_MAX, out);

    return r < 0 ? err_errno(err, r, "reading '%s'", path) : 0;
}

/* Also stops the older ones. */
static void https_free(struct https *https)
{
    while (https) {
        struct https *older = https->older;

        if (https->daemon)
            MHD_stop_daemon(https->daemon);
        buf_done(&https->certificate);
        buf_done(&https->key);
        buf_done(&https->client_ca);
        free(https);
        https = older;
    }
}
DEFINE_AUTOPTR(https, https_free);

static int http_server_add_https(struct http_server *server, struct err *err)
{
    const struct tls_files *files = server->options.tls;
    autoptr(https) https = xnew(struct https);
    int r = read_pem(files->certificate, &https->certificate, err);

    if (r == 0)
        r = read_pem(files->key, &https->key, err);
    if (r == 0 && files->client_ca)
        r = read_pem(files->client_ca, &https->client_ca, err);
    if (r == 0)
        r = http_server_start_daemon(server, https, &https->daemon, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&server->lock);
    https->older = server->https;
    server->https = steal_ptr(&https);
    pthread_mutex_unlock(&server->lock);
    return 0;
}

/* A connection may be on its way to the daemon that was the newest until now, so that one stays; the one before it is stopped. */
int http_server_reload(struct http_server *server, struct err *err)
{
    int r = server->https ? http_server_add_https(server, err) : 0;

    if (r == 0 && server->https && server->https->older) {
        https_free(server->https->older->older);
        server->https->older->older = NULL;
    }
    return r;
}

int http_server_start(struct http_server *server, struct err *err)
{
    int r = 0;

    if (server->has_plain)
        r = http_server_start_daemon(server, NULL, &server->plain, err);
    if (r == 0 && server->has_secure)
        r = http_server_add_https(server, err);
    if (r == 0)
        r = conn_watch_start(server->watch, err);
    server->is_started = r == 0;
    return r;
}

/* Call with the lock held. Returns whether the count became 0 in time. */
static bool http_server_wait_none(struct http_server *server, const size_t *count, unsigned grace_ms)
{
    struct timespec until = clock_timespec_of_ns(clock_now_ns() + grace_ms * CLOCK_NS_PER_MS);
    int r = 0;

    while (*count > 0 && r == 0)
        r = pthread_cond_timedwait(&server->idle, &server->lock, &until);
    return *count == 0;
}

static void http_server_wait_for_calls(struct http_server *server, unsigned grace_ms)
{
    pthread_mutex_lock(&server->lock);
    server->is_stopping = true;
    if (!http_server_wait_none(server, &server->calls, grace_ms)) {
        pthread_mutex_unlock(&server->lock);
        conn_watch_cancel_all(server->watch);
        pthread_mutex_lock(&server->lock);
        while (server->calls > 0)
            pthread_cond_wait(&server->idle, &server->lock);
    }
    /* Clients that wait for an answer get it, if they read. */
    http_server_wait_none(server, &server->answers, ANSWER_MS);
    pthread_mutex_unlock(&server->lock);
}

void http_server_stop(struct http_server *server, unsigned grace_ms)
{
    if (server->is_started) {
        conn_watch_stop_accepting(server->watch);
        http_server_wait_for_calls(server, grace_ms);
        /* Before the daemons stop, no thread may hand connections over, and every suspended connection must be resumed, which the end of its
         * call does. */
        conn_watch_stop(server->watch);
    }
    server->is_started = false;
    if (server->plain)
        MHD_stop_daemon(server->plain);
    server->plain = NULL;
    https_free(steal_ptr(&server->https));
}

void http_server_free(struct http_server *server)
{
    if (!server)
        return;
    http_server_stop(server, 0);
    conn_watch_free(server->watch);
    route_table_free(server->routes);
    buf_done(&server->openapi);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->idle);
    free(server);
}

void http_server_stats(struct http_server *server, struct http_server_stats *ret)
{
    conn_watch_stats(server->watch, &ret->connections, &ret->refused);
    pthread_mutex_lock(&server->lock);
    ret->calls = server->calls;
    pthread_mutex_unlock(&server->lock);
}
