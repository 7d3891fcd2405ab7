/* The handler's side of an exchange, in a thread of the pool: what a method (call/call.h) and a web route (call/web.h) ask for. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "rest/exchange_int.h"
#include "rest/field.h"
#include "rest/json_message.h"
#include "rest/request_fields.h"
#include "rest/url.h"

#define BEGIN_MS                                                                                                               \
    1000 /* a stream of events that is still empty begins after this long; until then a refusal can have an HTTP status of its own */
#define PIECE_MAX ((size_t) 64 << 10)
#define QUERIES_MAX 256

static struct exchange *of_call(struct call *call)
{
    return (struct exchange *) call;
}

/* Makes the request message from the body and the path, and from the query unless the body is JSON. */
static int exchange_make_request(struct exchange *exchange, ProtobufCMessage **ret, struct err *err)
{
    const struct method_route *method_route = exchange->match.route->method_route;
    bool is_json = method_route->body == METHOD_BODY_JSON;
    int (*parse)(const ProtobufCMessageDescriptor *descriptor, const char *text, size_t len, ProtobufCMessage **ret,
                 struct err *err) =
        exchange->call.method->flags & METHOD_STRICT ? json_message_parse_known : json_message_parse;
    ProtobufCMessage *message;
    int r;

    r = parse(exchange->call.method->request, is_json ? exchange->body.data : NULL, is_json ? exchange->body.len : 0, &message,
              err);
    if (r < 0)
        return r;
    if (!is_json && exchange->body.len > 0)
        r = request_fields_of_query(message, &exchange->match, exchange->body.data, exchange->body.len, err);
    if (!is_json && r == 0)
        r = request_fields_of_query(message, &exchange->match, exchange->query, exchange->query_len, err);
    if (r == 0)
        r = request_fields_of_path(message, &exchange->match, err);
    if (r < 0) {
        protobuf_c_message_free_unpacked(message, NULL);
        return r;
    }
    *ret = message;
    return 1;
}

/* Makes a message with this one field, which takes over the value. */
static ProtobufCMessage *exchange_wrap_field(const ProtobufCMessageDescriptor *descriptor, const char *name, const void *value)
{
    size_t budget = SIZE_MAX;
    ProtobufCMessage *message = field_new_message(&budget, descriptor);
    const ProtobufCFieldDescriptor *field = field_find(descriptor, name, strlen(name));

    if (!message || !field)
        abort(); /* http_server_new() checked the table */
    field_choose(message, field);
    memcpy(field_member(message, field), value, field_size(field));
    return message;
}

static ProtobufCMessage *exchange_take_piece(struct exchange *exchange)
{
    size_t held = exchange->inbox.len - exchange->inbox_at, len = held < PIECE_MAX ? held : PIECE_MAX;
    ProtobufCBinaryData data = { .len = len, .data = malloc(len) };

    if (!data.data)
        abort();
    memcpy(data.data, exchange->inbox.data + exchange->inbox_at, len);
    exchange->inbox_at += len;
    if (exchange->inbox_at > held - len) {
        memmove(exchange->inbox.data, exchange->inbox.data + exchange->inbox_at, held - len);
        exchange->inbox.len = held - len;
        exchange->inbox_at = 0;
    }
    return exchange_wrap_field(exchange->call.method->request, "data", &data);
}

static int exchange_recv_streamed(struct exchange *exchange, ProtobufCMessage **ret, struct err *err)
{
    int r;

    pthread_mutex_lock(&exchange->lock);
    /* In a form the metadata is complete when the file begins. */
    while (
        !exchange->is_cancelled && !exchange->body_refusal && !exchange->body_is_complete &&
        (exchange->metadata ? exchange->is_multipart && !exchange->file_has_begun : exchange->inbox.len == exchange->inbox_at))
        pthread_cond_wait(&exchange->changed, &exchange->lock);
    if (exchange->is_cancelled) {
        r = err_set(err, ERR_CANCELLED, -ECANCELED, "the call was cancelled");
    } else if (exchange->body_refusal) {
        r = err_set(err, ERR_INVALID_ARGUMENT, -EBADMSG, "%s", exchange->body_refusal);
    } else if (exchange->metadata) {
        ProtobufCMessage *metadata = steal_ptr(&exchange->metadata);
        *ret = exchange_wrap_field(exchange->call.method->request, "metadata", &metadata);
        r = 1;
    } else if (exchange->inbox.len > exchange->inbox_at) {
        *ret = exchange_take_piece(exchange);
        r = 1;
        if (!exchange->body_is_complete)
            exchange_wake(exchange);
    } else {
        r = 0;
    }
    pthread_mutex_unlock(&exchange->lock);
    return r;
}

static int exchange_op_recv(struct call *call, ProtobufCMessage **ret, struct err *err)
{
    struct exchange *exchange = of_call(call);

    if (exchange->body_mode == BODY_STREAMED)
        return exchange_recv_streamed(exchange, ret, err);
    if (exchange->request_taken)
        return 0;
    exchange->request_taken = true;
    return exchange_make_request(exchange, ret, err);
}

/* ---- answers in pieces ---- */

/* Drops what has been sent once it is more than what has not, so that a slow client costs bounded memory. */
static void exchange_drop_sent(struct exchange *exchange)
{
    size_t held = exchange->outbox.len - exchange->outbox_at;

    if (exchange->outbox_at <= held)
        return;
    memmove(exchange->outbox.data, exchange->outbox.data + exchange->outbox_at, held);
    exchange->outbox.len = held;
    exchange->outbox_at = 0;
}

/* Waits while the outbox is full. Returns -ECANCELED when the client is gone or the call was cancelled. */
static int exchange_send_piece(struct exchange *exchange, const void *bytes, size_t len)
{
    int r = -ECANCELED;

    pthread_mutex_lock(&exchange->lock);
    while (!exchange->is_cancelled && exchange->outbox.len - exchange->outbox_at >= EXCHANGE_OUTBOX_MAX)
        pthread_cond_wait(&exchange->changed, &exchange->lock);
    if (!exchange->is_cancelled) {
        exchange_drop_sent(exchange);
        if (!exchange->is_head)
            buf_add(&exchange->outbox, bytes, len);
        exchange->is_drained = false;
        exchange->has_begun = true;
        exchange->heartbeat_ns = clock_now_ns() + exchange->server->options.heartbeat_ms * CLOCK_NS_PER_MS;
        /* The headers are the whole answer. */
        if (exchange->is_head)
            exchange_cancel_locked(exchange);
        if (exchange->body_is_complete)
            exchange_wake(exchange);
        r = 0;
    }
    pthread_mutex_unlock(&exchange->lock);
    return r;
}

/* ---- a method ---- */

static int exchange_op_send(struct call *call, const ProtobufCMessage *message)
{
    struct exchange *exchange = of_call(call);
    enum method_answer answer = exchange->match.route->method_route->answer;
    autodone(buf) struct buf event = BUF_EMPTY;

    if (call_is_cancelled(call))
        return -ECANCELED;
    if (answer == METHOD_ANSWER_JSON) {
        if (exchange->has_answer)
            return -EPROTO;
        exchange->has_answer = true;
        json_message_add(&exchange->response.body, message);
        return 0;
    }
    if (answer == METHOD_ANSWER_BYTES) {
        const ProtobufCFieldDescriptor *field = field_find(message->descriptor, "data", strlen("data"));
        const ProtobufCBinaryData *data = field_member(message, field);
        return exchange_send_piece(exchange, data->data, data->len);
    }
    if (!exchange->is_head) {
        buf_add_str(&event, "event: message\ndata: ");
        json_message_add(&event, message);
        buf_add_str(&event, "\n\n");
    }
    return exchange_send_piece(exchange, event.data, event.len);
}

static const char *exchange_op_header(struct call *call, const char *name)
{
    return exchange_header(of_call(call), name);
}

static void exchange_op_set_trailer(struct call *call, const char *name, const char *value)
{
    struct exchange *exchange = of_call(call);

    if (exchange->trailer_count == EXCHANGE_TRAILERS_MAX)
        return;
    vec_room(&exchange->trailers, &exchange->trailer_cap, exchange->trailer_count);
    exchange->trailers[exchange->trailer_count++] = (struct web_pair){ .name = xdup(name), .value = xdup(value) };
}

static int exchange_op_cancel_fd(struct call *call)
{
    struct exchange *exchange = of_call(call);
    uint64_t one = 1;

    pthread_mutex_lock(&exchange->lock);
    if (exchange->cancel_fd < 0) {
        exchange->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (exchange->cancel_fd >= 0 && exchange->is_cancelled)
            (void) !write(exchange->cancel_fd, &one, sizeof(one));
    }
    int fd = exchange->cancel_fd;
    pthread_mutex_unlock(&exchange->lock);
    return fd;
}

static bool exchange_op_is_cancelled(struct call *call)
{
    struct exchange *exchange = of_call(call);

    pthread_mutex_lock(&exchange->lock);
    bool is_cancelled = exchange->is_cancelled;
    pthread_mutex_unlock(&exchange->lock);
    return is_cancelled;
}

const struct call_ops exchange_call_ops = {
    .recv = exchange_op_recv,
    .send = exchange_op_send,
    .header = exchange_op_header,
    .set_trailer = exchange_op_set_trailer,
    .cancel_fd = exchange_op_cancel_fd,
    .is_cancelled = exchange_op_is_cancelled,
};

static void exchange_add_trailers(struct buf *out, const struct exchange *exchange)
{
    buf_add_str(out, "{\"trailers\":{");
    for (size_t i = 0; i < exchange->trailer_count; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        json_message_add_string(out, exchange->trailers[i].name, strlen(exchange->trailers[i].name));
        buf_add_char(out, ':');
        json_message_add_string(out, exchange->trailers[i].value, strlen(exchange->trailers[i].value));
    }
    buf_add_str(out, "}}");
}

static void exchange_answer_error(struct exchange *exchange, const struct err *err)
{
    struct web_response *response = &exchange->response;

    buf_clear(&response->body);
    response->status = err_code_http_status(err->code);
    response->content_type = "application/json";
    exchange_add_error(&response->body, err->code, err->text, &exchange->call);
    if (response->status == 401)
        web_response_add_header(response, "WWW-Authenticate", "Bearer");
}

static void exchange_end_events(struct exchange *exchange, const struct err *err)
{
    buf_add_str(&exchange->outbox, err->code == ERR_OK ? "event: end\ndata: " : "event: error\ndata: ");
    if (err->code == ERR_OK)
        exchange_add_trailers(&exchange->outbox, exchange);
    else
        exchange_add_error(&exchange->outbox, err->code, err->text, &exchange->call);
    buf_add_str(&exchange->outbox, "\n\n");
}

/* Call with the lock held. Completes the answer of a method. */
static void exchange_end_method(struct exchange *exchange, const struct err *err)
{
    enum method_answer answer = exchange->match.route->method_route->answer;

    if (answer != METHOD_ANSWER_JSON && err->code == ERR_OK)
        exchange->has_begun = true;
    if (exchange->has_begun && answer == METHOD_ANSWER_EVENTS) {
        exchange_end_events(exchange, err);
    } else if (exchange->has_begun) {
        exchange->is_broken = err->code != ERR_OK && !exchange->is_head;
    } else {
        if (err->code != ERR_OK)
            exchange_answer_error(exchange, err);
        for (size_t i = 0; i < exchange->trailer_count; i++) {
            autofree char *name = xprintf("Grpc-Trailer-%s", exchange->trailers[i].name);
            web_response_add_header(&exchange->response, name, exchange->trailers[i].value);
        }
    }
}

/* Turns a handler's result into the error that the client gets. */
static void exchange_classify_result(struct exchange *exchange, int r, struct err *err)
{
    pthread_mutex_lock(&exchange->lock);
    bool is_late = exchange->is_late, is_cancelled = exchange->is_cancelled && !exchange->is_head;
    pthread_mutex_unlock(&exchange->lock);
    if (r >= 0) {
        *err = ERR_NONE;
        if (exchange->match.route->method_route->answer == METHOD_ANSWER_JSON && !exchange->has_answer)
            err_set(err, ERR_INTERNAL, 0, "the method gave no answer");
        return;
    }
    bool is_end = r == -ECANCELED && (err->code == ERR_OK || err->code == ERR_CANCELLED);
    if (is_late && is_end)
        err_set(err, ERR_DEADLINE_EXCEEDED, 0, "the deadline has passed");
    else if (is_cancelled && is_end)
        err_set(err, ERR_CANCELLED, 0, "the call was cancelled");
    else if (err->code == ERR_OK)
        err_errno(err, r, "%s", exchange->call.method->name);
}

static void exchange_run_method(struct exchange *exchange)
{
    const struct http_server_options *options = &exchange->server->options;
    struct err err = ERR_NONE;
    int r = call_is_cancelled(&exchange->call) ? -ECANCELED
                                               : exchange->call.method->run(&exchange->call, options->methods->cookie, &err);

    exchange_classify_result(exchange, r, &err);
    if (options->on_call_end)
        options->on_call_end(exchange->call.method, err.code, clock_now_ns() - exchange->started_ns,
                             options->on_call_end_cookie);
    pthread_mutex_lock(&exchange->lock);
    exchange_end_method(exchange, &err);
    pthread_mutex_unlock(&exchange->lock);
}

/* ---- a web route ---- */

static struct exchange *of_web(struct web *web)
{
    return of_call(web->call);
}

/* Moves the response to where the event thread reads it. */
static void exchange_take_response(struct exchange *exchange, struct web *web)
{
    web_response_done(&exchange->response);
    exchange->response = web->response;
    web->response = (struct web_response){ .status = exchange->response.status, .content_type = "" };
}

static int web_op_begin(struct web *web)
{
    struct exchange *exchange = of_web(web);
    int64_t heartbeat_ns = clock_now_ns() + exchange->server->options.heartbeat_ms * CLOCK_NS_PER_MS;

    pthread_mutex_lock(&exchange->lock);
    bool is_cancelled = exchange->is_cancelled;
    if (!is_cancelled) {
        exchange_take_response(exchange, web);
        exchange->has_begun = true;
        exchange->heartbeat_ns = heartbeat_ns;
        exchange_wake(exchange);
    }
    pthread_mutex_unlock(&exchange->lock);
    if (!is_cancelled && web->route->answer == WEB_ANSWER_EVENTS)
        conn_watch_arm(exchange->server->watch, heartbeat_ns);
    return is_cancelled ? -ECANCELED : 0;
}

static int web_op_write(struct web *web, const void *bytes, size_t len)
{
    return exchange_send_piece(of_web(web), bytes, len);
}

/* libmicrohttpd asks for more bytes when it has sent those that it has. */
static int web_op_drain(struct web *web)
{
    struct exchange *exchange = of_web(web);

    pthread_mutex_lock(&exchange->lock);
    while (!exchange->is_cancelled && !exchange->is_drained)
        pthread_cond_wait(&exchange->changed, &exchange->lock);
    int r = exchange->is_cancelled ? -ECANCELED : 0;
    pthread_mutex_unlock(&exchange->lock);
    return r;
}

static int web_op_upgrade(struct web *web, struct web_socket *ret, struct err *err)
{
    web_add_header(web, "Sec-WebSocket-Version", "13"); /* of a refusal */
    return exchange_upgrade(of_web(web), ret, err);
}

static void web_op_hang_up(struct web *web)
{
    exchange_hang_up(of_web(web));
}

static const struct web_ops web_ops = {
    .begin = web_op_begin, .write = web_op_write, .drain = web_op_drain, .upgrade = web_op_upgrade, .hang_up = web_op_hang_up
};

/* The captures of the path, then the parameters of the query, decoded. */
static int exchange_make_pairs(const struct exchange *exchange, struct web_pair **ret, size_t *ret_count, struct err *err)
{
    const struct route_match *match = &exchange->match;
    autodone(buf) struct buf name = BUF_EMPTY, value = BUF_EMPTY;
    const char *at = exchange->query, *end = at + exchange->query_len;
    size_t cap = 0, captures = match->route->capture_count;
    int r = 0;

    for (size_t i = 0; r == 0 && i < captures; i++) {
        buf_clear(&value);
        r = url_decode(match->captures[i], match->capture_lens[i], false, &value, err);
        vec_room(ret, &cap, *ret_count);
        if (r == 0)
            (*ret)[(*ret_count)++] =
                (struct web_pair){ .name = xdup(match->route->names[i]), .value = xdupn(value.data, value.len) };
    }
    while (r == 0 && (r = url_next_pair(&at, end, &name, &value, err)) > 0) {
        if (*ret_count == QUERIES_MAX + captures)
            return err_invalid(err, "the query has more than %d parameters", QUERIES_MAX);
        vec_room(ret, &cap, *ret_count);
        (*ret)[(*ret_count)++] = (struct web_pair){ .name = xdupn(name.data, name.len), .value = xdupn(value.data, value.len) };
        r = 0;
    }
    return r;
}

static void exchange_run_web(struct exchange *exchange)
{
    const struct route *route = exchange->match.route;
    struct web_pair *pairs = NULL;
    size_t count = 0;
    struct err err = ERR_NONE;
    struct web web = {
        .ops = &web_ops,
        .call = &exchange->call,
        .route = route->web,
        .body = exchange->body.data ? exchange->body.data : "",
        .body_len = exchange->body.len,
        .response = { .status = 200, .content_type = "application/json", .size_bytes = -1 },
    };

    if (exchange_make_pairs(exchange, &pairs, &count, &err) < 0) {
        web.response.status = 400;
        exchange_add_refusal(exchange, &web.response.body, 400, err.code, err.text,
                             "path and query are UTF-8 in percent encoding");
    } else {
        web.captures = pairs;
        web.capture_count = route->capture_count;
        web.query_count = count - route->capture_count;
        web.queries = web.query_count > 0 ? pairs + route->capture_count : NULL;
        route->web->run(&web, route->cookie);
    }
    pthread_mutex_lock(&exchange->lock);
    /* Fewer bytes than were promised: libmicrohttpd closes the connection when it is told that this is an error. */
    if (exchange->has_begun)
        exchange->is_broken = (exchange->is_cancelled || web.is_broken) && !exchange->is_head;
    else
        exchange_take_response(exchange, &web);
    pthread_mutex_unlock(&exchange->lock);
    web_response_done(&web.response);
    web_pairs_free(pairs, count);
}

/* ---- the thread ---- */

/* Signals with the lock held, because the thread that waits for the last one frees the server as soon as it has the lock. */
static void http_server_count_down(struct http_server *server, size_t *count)
{
    pthread_mutex_lock(&server->lock);
    if (--*count == 0)
        pthread_cond_broadcast(&server->idle);
    pthread_mutex_unlock(&server->lock);
}

void exchange_count_answer(struct exchange *exchange)
{
    http_server_count_down(exchange->server, &exchange->server->answers);
}

static void exchange_thread(void *arg)
{
    struct exchange *exchange = arg;
    struct http_server *server = exchange->server;

    if (exchange->call.method)
        exchange_run_method(exchange);
    else
        exchange_run_web(exchange);
    pthread_mutex_lock(&exchange->lock);
    exchange->has_ended = true;
    exchange_wake(exchange);
    pthread_mutex_unlock(&exchange->lock);
    exchange_unref(exchange);
    http_server_count_down(server, &server->calls);
}

int exchange_submit(struct exchange *exchange)
{
    struct http_server *server = exchange->server;
    const struct method_route *method_route = exchange->match.route->method_route;
    bool is_events = method_route && method_route->answer == METHOD_ANSWER_EVENTS;
    int64_t now_ns = clock_now_ns(), begin_by_ns = is_events ? now_ns + BEGIN_MS * CLOCK_NS_PER_MS : INT64_MAX;
    bool lasts = exchange->match.route->method && method_lasts(exchange->match.route->method);
    int r;

    pthread_mutex_lock(&server->lock);
    bool is_stopping = server->is_stopping;
    server->calls += !is_stopping;
    server->answers += !is_stopping;
    pthread_mutex_unlock(&server->lock);
    if (is_stopping)
        return -EAGAIN;
    pthread_mutex_lock(&exchange->lock);
    exchange->is_submitted = true;
    exchange->started_ns = now_ns;
    exchange->begin_by_ns = begin_by_ns;
    exchange->heartbeat_ns = now_ns + server->options.heartbeat_ms * CLOCK_NS_PER_MS;
    exchange->response = (struct web_response){ .status = 200, .size_bytes = -1 };
    if (method_route) {
        exchange->response.content_type = is_events                                     ? "text/event-stream"
                                          : method_route->answer == METHOD_ANSWER_BYTES ? "application/octet-stream"
                                                                                        : "application/json";
        /* Clients of gRPC gateways expect it. */
        web_response_add_header(&exchange->response, "Grpc-Metadata-Content-Type", "application/grpc");
    }
    pthread_mutex_unlock(&exchange->lock);
    exchange_ref(exchange);
    r = pool_submit(server->options.pool, lasts ? POOL_LASTING : POOL_BRIEF, exchange_thread, exchange);
    if (r < 0) {
        exchange_unref(exchange);
        http_server_count_down(server, &server->calls);
        return r;
    }
    conn_watch_arm(server->watch, begin_by_ns);
    if (exchange->call.deadline_ns)
        conn_watch_arm(server->watch, exchange->call.deadline_ns);
    return 0;
}
