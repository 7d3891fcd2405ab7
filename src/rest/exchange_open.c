/* Checks the headers of a request: whether they are sound, whether the request may come from there, and which route it is for. */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "call/tls.h"
#include "rest/decimal.h"
#include "rest/exchange_int.h"
#include "rest/origin.h"

static size_t exchange_count_headers(const struct exchange *exchange, const char *name)
{
    size_t count = 0;

    for (size_t i = 0; i < exchange->header_count; i++)
        count += strcmp(exchange->headers[i].name, name) == 0;
    return count;
}

static bool is_content_length(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len < 19 && strspn(text, "0123456789") == len;
}

/* Finds request smuggling: two servers in a row must not disagree about where the request ends. */
static const char *exchange_find_smuggling(const struct exchange *exchange)
{
    const char *encoding = exchange_header(exchange, "transfer-encoding"),
               *length = exchange_header(exchange, "content-length");

    if (exchange->head_flaw)
        return exchange->head_flaw;
    if (exchange_count_headers(exchange, "content-length") > 1 || exchange_count_headers(exchange, "transfer-encoding") > 1 ||
        (encoding && length))
        return "the request has more than one length";
    if (encoding && (strcasecmp(encoding, "chunked") != 0 || exchange->is_http_1_0))
        return "the request has a transfer encoding other than chunked";
    if (length && !is_content_length(length))
        return "the request's length is no number";
    if (exchange_count_headers(exchange, "host") > 1 || exchange_count_headers(exchange, "authorization") > 1)
        return "the request has a header twice that it can have once";
    return NULL;
}

static void exchange_learn_body(struct exchange *exchange)
{
    const char *length = exchange_header(exchange, "content-length"), *type = exchange_header(exchange, "content-type");

    exchange->has_body = exchange_header(exchange, "transfer-encoding") != NULL;
    if (length) {
        exchange->total_size = strtoll(length, NULL, 10);
        exchange->has_body = exchange->total_size > 0;
    }
    exchange->is_form = type && strncasecmp(type, "application/x-www-form-urlencoded", 33) == 0;
    exchange->is_multipart = type && strncasecmp(type, "multipart/form-data", 19) == 0;
}

/* Browsers send these headers, and say in them which page made them send the request. */
static bool exchange_is_from_elsewhere(struct exchange *exchange)
{
    const char *origin = exchange_header(exchange, "origin"), *host = exchange_header(exchange, "host");
    const char *site = exchange_header(exchange, "sec-fetch-site"), *mode = exchange_header(exchange, "sec-fetch-mode");
    const struct http_server_options *options = &exchange->server->options;

    if (origin && origin_is_configured(origin, options->origins)) {
        exchange->allowed_origin = xdup(origin);
        return false;
    }
    if (origin)
        return !origin_is_own(origin, host, exchange->conn->peer.is_tls);
    if (!site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0)
        return false;
    /* Following a link to us does no harm: it only reads, and the page does not see the answer. */
    return !(mode && strcmp(mode, "navigate") == 0 && (strcmp(exchange->verb, "GET") == 0 || exchange->is_head));
}

/* Parses "5S", as gRPC writes it: at most eight digits and a unit. */
static int parse_grpc_timeout(const char *text, int64_t *ret_ns)
{
    static const char units[] = "HMSmun";
    static const int64_t spans_ns[] = {
        3600 * CLOCK_NS_PER_SEC, 60 * CLOCK_NS_PER_SEC, CLOCK_NS_PER_SEC, CLOCK_NS_PER_MS, 1000, 1
    };
    size_t digits = strspn(text, "0123456789");
    const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;

    if (digits == 0 || digits > 8 || !unit || text[digits + 1] != '\0')
        return -EINVAL;
    *ret_ns = strtoll(text, NULL, 10) * spans_ns[unit - units];
    return 0;
}

/* Parses "30s", or a number of seconds. */
static int parse_request_timeout(const char *text, int64_t *ret_ns)
{
    size_t len = strlen(text);
    __int128 ns;

    if (len > 0 && text[len - 1] == 's')
        len--;
    if (decimal_parse(text, len, 9, &ns) < 0 || ns < 0 || ns > INT64_MAX / 2)
        return -EINVAL;
    *ret_ns = (int64_t) ns;
    return 0;
}

static int exchange_parse_deadline(struct exchange *exchange)
{
    const char *grpc = exchange_header(exchange, "grpc-timeout"), *plain = exchange_header(exchange, "x-request-timeout");
    int64_t span_ns;

    if (!grpc && !plain)
        return 0;
    if ((grpc ? parse_grpc_timeout(grpc, &span_ns) : parse_request_timeout(plain, &span_ns)) < 0)
        return -EINVAL;
    exchange->call.deadline_ns = clock_now_ns() + span_ns;
    return 0;
}

/* libmicrohttpd asks the client for a certificate where one is needed; we verify it. */
static bool exchange_has_certificate(struct exchange *exchange)
{
    struct http_conn *conn = exchange->conn;

    if (!conn->peer.is_tls || !exchange->server->options.tls->client_ca)
        return true;
    if (conn->has_checked_tls)
        return conn->peer.tls_subject != NULL;
    conn->has_checked_tls = true;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    unsigned status = 1;
    if (!info || gnutls_certificate_verify_peers2(info->tls_session, &status) < 0 || status != 0)
        return false;
    conn->peer.tls_subject = tls_dup_subject(info->tls_session);
    return conn->peer.tls_subject != NULL;
}

static const char *exchange_find_rejection(struct exchange *exchange, enum err_code *ret_code)
{
    const char *host = exchange_header(exchange, "host"), *wrong = exchange_find_smuggling(exchange);

    *ret_code = ERR_INVALID_ARGUMENT;
    exchange->has_body = exchange->is_unsound = wrong != NULL;
    if (wrong)
        return wrong;
    exchange_learn_body(exchange);
    *ret_code = ERR_UNAUTHENTICATED;
    if (!exchange_has_certificate(exchange))
        return "a client certificate is needed";
    *ret_code = ERR_PERMISSION_DENIED;
    if (host && !origin_host_is_ours(host, &exchange->conn->peer, exchange->server->options.host_names))
        return "this server has another name than the request's Host";
    if (exchange_is_from_elsewhere(exchange))
        return "requests from pages of other origins are not taken";
    *ret_code = ERR_INVALID_ARGUMENT;
    if (exchange_parse_deadline(exchange) < 0)
        return "the timeout in the request's headers is malformed";
    return NULL;
}

/* A form that is posted to a path which only has GET is served as GET, with its fields as the query. */
static void exchange_find_form_target(struct exchange *exchange)
{
    if (strcmp(exchange->verb, "POST") != 0 || !exchange->is_form)
        return;
    struct route_match match;
    route_find(exchange->server->routes, "GET", exchange->path, exchange->path_len, &match);
    if (match.route && match.route->method && match.route->method_route->body == METHOD_BODY_NONE)
        exchange->match = match;
}

static enum body_mode exchange_mode_of(const struct exchange *exchange)
{
    const struct method_route *method_route = exchange->match.route->method_route;

    if (!method_route)
        return exchange->match.route->web->has_body ? BODY_WHOLE : BODY_IGNORED;
    if (method_route->body == METHOD_BODY_BYTES)
        return BODY_STREAMED;
    return method_route->body == METHOD_BODY_JSON || (exchange->is_form && strcmp(method_route->verb, "GET") == 0)
               ? BODY_WHOLE
               : BODY_IGNORED;
}

static bool http_server_is_stopping(struct http_server *server)
{
    pthread_mutex_lock(&server->lock);
    bool stopping = server->is_stopping;
    pthread_mutex_unlock(&server->lock);
    return stopping;
}

static enum MHD_Result exchange_start_stream(struct exchange *exchange)
{
    struct err err = ERR_NONE;

    if (exchange_prepare_stream(exchange, &err) < 0)
        return exchange_reject(exchange, err.code, err.text);
    if (exchange_submit(exchange) < 0)
        return exchange_reject(exchange, ERR_RESOURCE_EXHAUSTED, "too many calls at once");
    return MHD_YES;
}

/* These paths answer OPTIONS for everybody; the others only for pages of allowed origins. */
static bool exchange_is_web(const struct exchange *exchange)
{
    return web_is_path(exchange->path, exchange->path_len);
}

void exchange_accept_headers(struct exchange *exchange, enum MHD_Result *ret)
{
    enum err_code code;
    const char *refusal = exchange_find_rejection(exchange, &code);

    *ret = MHD_YES;
    if (!refusal && http_server_is_stopping(exchange->server)) {
        code = ERR_UNAVAILABLE;
        refusal = "the server is stopping";
    }
    if (refusal) {
        *ret = exchange_reject(exchange, code, refusal);
        return;
    }
    route_find(exchange->server->routes, exchange->verb, exchange->path, exchange->path_len, &exchange->match);
    if (!exchange->match.route)
        exchange_find_form_target(exchange);
    if (!exchange->match.route) {
        bool is_path = exchange->match.allow[0] != '\0';

        if (is_path && (exchange->allowed_origin || exchange_is_web(exchange)) && strcmp(exchange->verb, "OPTIONS") == 0)
            *ret = exchange_reject_status(exchange, 204, ERR_OK, "");
        else
            *ret = !is_path                    ? exchange_reject(exchange, ERR_NOT_FOUND, "Not Found")
                   : exchange_is_web(exchange) ? exchange_reject_status(exchange, 405, ERR_UNIMPLEMENTED, "Method Not Allowed")
                                               : exchange_reject(exchange, ERR_UNIMPLEMENTED, "Method Not Allowed");
        return;
    }
    exchange->call.method = exchange->match.route->method;
    exchange->body_mode = exchange_mode_of(exchange);
    exchange->body_max = EXCHANGE_JSON_MAX;
    if (exchange->match.route->web && exchange->match.route->web->body_max > 0)
        exchange->body_max = exchange->match.route->web->body_max;
    if (exchange->body_mode != BODY_STREAMED && exchange->total_size > (int64_t) exchange->body_max) {
        *ret = exchange_reject_status(exchange, 413, ERR_RESOURCE_EXHAUSTED, "the body is too large");
        return;
    }
    if (exchange->body_mode == BODY_STREAMED)
        *ret = exchange_start_stream(exchange);
}
