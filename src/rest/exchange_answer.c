/* Sends answers, with the headers that all of them have. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "rest/exchange_int.h"
#include "rest/json_message.h"

#define STREAM_BLOCK_BYTES (32u << 10)
#define ERROR_DOMAIN "agentfense"

/* Writes a message in an Any as protobuf's JSON mapping does: its fields beside "@type". */
static void add_failure(struct buf *out, const ProtobufCMessage *failure)
{
    autodone(buf) struct buf fields = BUF_EMPTY;

    json_message_add(&fields, failure);
    buf_addf(out, ",{\"@type\":\"type.googleapis.com/%s\"", failure->descriptor->name);
    if (fields.len > 2)
        buf_add_char(out, ',');
    buf_add(out, fields.data + 1, fields.len - 1);
}

/* Writes google.rpc.ErrorInfo as gRPC gateways do. */
static void exchange_add_details(struct buf *out, const struct call *call)
{
    if (!call || !call->reason)
        return;
    buf_add_str(out, "{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":");
    json_message_add_string(out, call->reason, strlen(call->reason));
    buf_add_str(out, ",\"domain\":\"" ERROR_DOMAIN "\",\"metadata\":{");
    for (size_t i = 0; i < call->detail_count; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        json_message_add_string(out, call->details[i].key, strlen(call->details[i].key));
        buf_add_char(out, ':');
        json_message_add_string(out, call->details[i].value, strlen(call->details[i].value));
    }
    buf_add_str(out, "}}");
    if (call->failure)
        add_failure(out, call->failure);
}

void exchange_add_error(struct buf *out, enum err_code code, const char *message, const struct call *call)
{
    buf_addf(out, "{\"code\":%d,\"message\":", (int) code);
    json_message_add_string(out, message, strlen(message));
    buf_add_str(out, ",\"details\":[");
    exchange_add_details(out, call);
    buf_add_str(out, "]}");
}

enum MHD_Result exchange_queue_response(struct exchange *exchange, int status, struct MHD_Response *response)
{
    enum MHD_Result result;

    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "X-Request-Id", exchange->call.request_id);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "X-Frame-Options", "DENY");
    if (exchange->server->options.origins)
        MHD_add_response_header(response, "Vary", "Origin");
    if (exchange->allowed_origin) {
        MHD_add_response_header(response, "Access-Control-Allow-Origin", exchange->allowed_origin);
        MHD_add_response_header(response, "Access-Control-Expose-Headers", "X-Request-Id");
    }
    exchange->is_answered = true;
    result = MHD_queue_response(exchange->connection, (unsigned) status, response);
    MHD_destroy_response(response);
    return result;
}

/* Adds the handler's headers. Unless the handler set others, browsers are told not to store the answer and not to show it as a page. */
static enum MHD_Result exchange_send_with_headers(struct exchange *exchange, struct MHD_Response *response)
{
    const struct web_response *told = &exchange->response;
    bool has_cache = false, has_policy = false;

    if (!response)
        return MHD_NO;
    for (size_t i = 0; i < told->header_count; i++) {
        MHD_add_response_header(response, told->headers[i].name, told->headers[i].value);
        has_cache |= strcasecmp(told->headers[i].name, "Cache-Control") == 0;
        has_policy |= strcasecmp(told->headers[i].name, "Content-Security-Policy") == 0;
    }
    if (told->status != 204)
        MHD_add_response_header(response, "Content-Type", told->content_type);
    if (!has_cache)
        MHD_add_response_header(response, "Cache-Control", "no-store");
    if (!has_policy)
        MHD_add_response_header(response, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
    return exchange_queue_response(exchange, told->status, response);
}

enum MHD_Result exchange_send_final(struct exchange *exchange)
{
    struct buf *body = &exchange->response.body;
    size_t len = body->len;
    struct MHD_Response *response = len == 0 ? MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT)
                                             : MHD_create_response_from_buffer(len, buf_dup_take(body), MHD_RESPMEM_MUST_FREE);

    return exchange_send_with_headers(exchange, response);
}

/* ---- refusals ---- */

static const char *exchange_hint_of_rejection(const struct exchange *exchange)
{
    switch (exchange->refusal_status) {
    case 404:
        return "GET /api lists what is served; /openapi.json describes it";
    case 405:
        return "the header Allow tells what this path takes";
    case 413:
        return "send less at once";
    case 429:
        return "try again in a moment";
    default:
        return NULL;
    }
}

void exchange_add_refusal(const struct exchange *exchange, struct buf *out, int status, enum err_code code, const char *message,
                          const char *hint)
{
    if (web_is_path(exchange->path, exchange->path_len))
        web_add_error(out, status, message, hint, false, NULL);
    else
        exchange_add_error(out, code, message, NULL);
}

/* Sends the event thread's own answer. No handler has begun one. */
enum MHD_Result exchange_send_rejection(struct exchange *exchange)
{
    struct web_response *response = &exchange->response;
    int status = exchange->refusal_status;

    web_response_done(response);
    response->status = status;
    response->content_type = "application/json";
    if (status == 204 && exchange->allowed_origin) {
        web_response_add_header(response, "Access-Control-Allow-Methods", exchange->match.allow);
        web_response_add_header(response, "Access-Control-Allow-Headers",
                                "Authorization, Content-Type, If-Match, X-Request-Id, X-Request-Timeout, Grpc-Timeout");
        web_response_add_header(response, "Access-Control-Max-Age", "600");
    } else if (exchange->match.allow[0]) {
        web_response_add_header(response, "Allow", exchange->match.allow);
    }
    if (status != 204)
        exchange_add_refusal(exchange, &response->body, status, exchange->refusal_code, exchange->refusal,
                             exchange_hint_of_rejection(exchange));
    /* The body was not read, so the next request cannot be found behind it. */
    if (!exchange->body_is_complete && exchange->has_body)
        web_response_add_header(response, "Connection", "close");
    return exchange_send_final(exchange);
}

static bool exchange_must_reject_now(const struct exchange *exchange)
{
    if (exchange->is_unsound || exchange->body_is_complete)
        return true;
    return exchange->has_body && (exchange_header(exchange, "expect") || exchange->total_size > (int64_t) EXCHANGE_DISCARD_MAX);
}

enum MHD_Result exchange_reject_status(struct exchange *exchange, int status, enum err_code code, const char *message)
{
    exchange->refusal_status = status;
    exchange->refusal_code = code;
    exchange->refusal = xdup(message);
    if (exchange_must_reject_now(exchange))
        return exchange_send_rejection(exchange);
    exchange->body_mode = BODY_IGNORED;
    return MHD_YES;
}

enum MHD_Result exchange_reject(struct exchange *exchange, enum err_code code, const char *message)
{
    return exchange_reject_status(exchange, err_code_http_status(code), code, message);
}

/* ---- streams ---- */

/* A client of HTTP/1.0 takes the end of the connection for the end of the content: only a reset tells it otherwise, which is what TCP
 * makes of this call. */
static void exchange_reset_connection(const struct exchange *exchange)
{
    const struct sockaddr none = { .sa_family = AF_UNSPEC };

    if (exchange->is_http_1_0)
        (void) !connect(exchange->conn->fd, &none, sizeof(none));
}

static ssize_t exchange_read_outbox(void *cookie, uint64_t offset, char *out, size_t max)
{
    struct exchange *exchange = cookie;
    ssize_t r = 0;
    (void) offset;

    pthread_mutex_lock(&exchange->lock);
    size_t held = exchange->outbox.len - exchange->outbox_at, len = held < max ? held : max;
    if (len > 0) {
        memcpy(out, exchange->outbox.data + exchange->outbox_at, len);
        exchange->outbox_at += len;
        pthread_cond_broadcast(&exchange->changed);
        r = (ssize_t) len;
    } else if (exchange->has_ended) {
        if (exchange->is_broken)
            exchange_reset_connection(exchange);
        r = exchange->is_broken ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        exchange->is_drained = true;
        pthread_cond_broadcast(&exchange->changed);
        exchange_suspend(exchange);
    }
    pthread_mutex_unlock(&exchange->lock);
    return r;
}

static void exchange_on_response_free(void *cookie)
{
    exchange_unref(cookie);
}

enum MHD_Result exchange_send_stream(struct exchange *exchange)
{
    int64_t size = exchange->response.size_bytes;
    struct MHD_Response *response =
        MHD_create_response_from_callback(size >= 0 ? (uint64_t) size : MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES,
                                          exchange_read_outbox, exchange, exchange_on_response_free);

    if (response)
        exchange_ref(exchange);
    if (response && route_answers_events(exchange->match.route))
        MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* proxies pass events on at once */
    return exchange_send_with_headers(exchange, response);
}
