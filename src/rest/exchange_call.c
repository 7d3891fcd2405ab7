/* The handler's side of an exchange, in a thread of the pool. */
#include <errno.h>
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
    1000 /* a stream without anything in it shows itself after this long: until then a refusal can have a status of its own */
#define PIECE_MAX ((size_t) 64 << 10)

static struct exchange *of_call(struct call *call)
{
    return (struct exchange *) call;
}

/* The whole request: the body, then what the path says; without a body the query too. */
static int make_request(struct exchange *exchange, ProtobufCMessage **ret, struct err *err)
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

/* A message of a stream: its field of that name, which takes over the value. */
static ProtobufCMessage *exchange_wrap_field(const ProtobufCMessageDescriptor *descriptor, const char *name, const void *value)
{
    size_t budget = SIZE_MAX;
    ProtobufCMessage *message = field_new_message(&budget, descriptor);
    const ProtobufCFieldDescriptor *field = field_find(descriptor, name, strlen(name));

    if (!message || !field)
        abort(); /* the table was checked when the server was made, and the size is ours */
    field_choose(message, field);
    memcpy(field_member(message, field), value, field_size(field));
    return message;
}

static ProtobufCMessage *take_piece(struct exchange *exchange)
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

static int recv_streamed(struct exchange *exchange, ProtobufCMessage **ret, struct err *err)
{
    int r;

    pthread_mutex_lock(&exchange->lock);
    /* Of a form the metadata is complete when the file begins. */
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
        *ret = take_piece(exchange);
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
        return recv_streamed(exchange, ret, err);
    if (exchange->request_taken)
        return 0;
    exchange->request_taken = true;
    return make_request(exchange, ret, err);
}

static int send_answer(struct exchange *exchange, const ProtobufCMessage *message)
{
    if (exchange->has_answer)
        return -EPROTO;
    exchange->has_answer = true;
    json_message_add(&exchange->answer, message);
    return 0;
}

static void add_piece(struct buf *out, enum method_answer answer, const ProtobufCMessage *message)
{
    if (answer == METHOD_ANSWER_EVENTS) {
        buf_add_str(out, "event: message\ndata: ");
        json_message_add(out, message);
        buf_add_str(out, "\n\n");
        return;
    }
    const ProtobufCFieldDescriptor *field = field_find(message->descriptor, "data", strlen("data"));
    const ProtobufCBinaryData *data = field && field->type == PROTOBUF_C_TYPE_BYTES ? field_member(message, field) : NULL;
    if (data)
        buf_add(out, data->data, data->len);
}

/* What has been sent goes, when it is more than what has not: so the memory stays within bounds however slowly the client reads. */
static void drop_sent(struct exchange *exchange)
{
    size_t held = exchange->outbox.len - exchange->outbox_at;

    if (exchange->outbox_at <= held)
        return;
    memmove(exchange->outbox.data, exchange->outbox.data + exchange->outbox_at, held);
    exchange->outbox.len = held;
    exchange->outbox_at = 0;
}

int exchange_send_piece(struct exchange *exchange, const struct buf *piece)
{
    int r = -ECANCELED;

    pthread_mutex_lock(&exchange->lock);
    while (!exchange->is_cancelled && exchange->outbox.len - exchange->outbox_at >= EXCHANGE_OUTBOX_MAX)
        pthread_cond_wait(&exchange->changed, &exchange->lock);
    if (!exchange->is_cancelled) {
        drop_sent(exchange);
        if (!exchange->is_head)
            buf_add(&exchange->outbox, piece->data, piece->len);
        exchange->is_drained = false;
        exchange->has_begun = true;
        exchange->heartbeat_ns = clock_now_ns() + exchange->server->options.heartbeat_ms * CLOCK_NS_PER_MS;
        /* Nobody wants what follows the headers. */
        if (exchange->is_head)
            exchange_cancel_locked(exchange);
        if (exchange->body_is_complete)
            exchange_wake(exchange);
        r = 0;
    }
    pthread_mutex_unlock(&exchange->lock);
    return r;
}

/* libmicrohttpd asks for more when it has sent what it was given. */
int exchange_drain(struct exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    while (!exchange->is_cancelled && !exchange->is_drained)
        pthread_cond_wait(&exchange->changed, &exchange->lock);
    int r = exchange->is_cancelled ? -ECANCELED : 0;
    pthread_mutex_unlock(&exchange->lock);
    return r;
}

static int send_piece(struct exchange *exchange, enum method_answer answer, const ProtobufCMessage *message)
{
    autodone(buf) struct buf piece = BUF_EMPTY;

    if (!exchange->is_head)
        add_piece(&piece, answer, message);
    return exchange_send_piece(exchange, &piece);
}

static int exchange_op_send(struct call *call, const ProtobufCMessage *message)
{
    struct exchange *exchange = of_call(call);
    enum method_answer answer = exchange->match.route->method_route->answer;

    if (call_is_cancelled(call))
        return -ECANCELED;
    return answer == METHOD_ANSWER_JSON ? send_answer(exchange, message) : send_piece(exchange, answer, message);
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
    exchange->trailers[exchange->trailer_count++] = (struct http_pair){ .name = xdup(name), .value = xdup(value) };
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

static void add_trailers(struct buf *out, const struct exchange *exchange)
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

/* With the lock held: what the client sees of the end. */
static void end_answer(struct exchange *exchange, const struct err *err)
{
    const struct method_route *method_route = exchange->match.route->method_route;
    bool is_events = method_route->answer == METHOD_ANSWER_EVENTS;

    if (method_route->answer != METHOD_ANSWER_JSON && err->code == ERR_OK)
        exchange->has_begun = true;
    exchange->status = err_code_http_status(err->code);
    if (!exchange->has_begun) {
        if (err->code != ERR_OK) {
            buf_clear(&exchange->answer);
            exchange_add_error(&exchange->answer, err->code, err->text, &exchange->call);
        }
        return;
    }
    exchange->status = 200;
    exchange->is_broken = !is_events && err->code != ERR_OK && !exchange->is_head;
    if (!is_events)
        return;
    buf_add_str(&exchange->outbox, err->code == ERR_OK ? "event: end\ndata: " : "event: error\ndata: ");
    if (err->code == ERR_OK)
        add_trailers(&exchange->outbox, exchange);
    else
        exchange_add_error(&exchange->outbox, err->code, err->text, &exchange->call);
    buf_add_str(&exchange->outbox, "\n\n");
}

/* The result of a handler as the client is told it. */
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

static void run_method(struct exchange *exchange)
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
    end_answer(exchange, &err);
    pthread_mutex_unlock(&exchange->lock);
}

static void run_page(struct exchange *exchange)
{
    const struct route_match *match = &exchange->match;
    autodone(buf) struct buf rest = BUF_EMPTY;
    autofree char *path = xdupn(exchange->path, exchange->path_len);
    size_t last = match->route->capture_count;
    struct err err = ERR_NONE;

    exchange->page.status = 200;
    exchange->page.content_type = "application/json";
    if (last > 0 && url_decode(match->captures[last - 1], match->capture_lens[last - 1], false, &rest, &err) < 0) {
        exchange->page.status = err_code_http_status(err.code);
        exchange_add_error(&exchange->page.body, err.code, err.text, NULL);
        return;
    }
    const struct rest_request request = {
        .verb = match->route->verb,
        .path = path,
        .rest = rest.data ? rest.data : "",
        .query = exchange->query,
        .call = &exchange->call,
    };
    match->route->page->fn(&request, &exchange->page, match->route->page->cookie);
}

/* Whoever waits for the last one frees the server as soon as it has the lock: it is signalled with the lock held. */
static void count_down(struct http_server *server, size_t *count)
{
    pthread_mutex_lock(&server->lock);
    if (--*count == 0)
        pthread_cond_broadcast(&server->idle);
    pthread_mutex_unlock(&server->lock);
}

void exchange_count_answer(struct exchange *exchange)
{
    count_down(exchange->server, &exchange->server->answers);
}

static void exchange_thread(void *arg)
{
    struct exchange *exchange = arg;
    struct http_server *server = exchange->server;

    if (exchange->call.method)
        run_method(exchange);
    else if (exchange->match.route->web)
        exchange_run_web(exchange);
    else
        run_page(exchange);
    pthread_mutex_lock(&exchange->lock);
    exchange->has_ended = true;
    exchange_wake(exchange);
    pthread_mutex_unlock(&exchange->lock);
    exchange_unref(exchange);
    count_down(server, &server->calls);
}

int exchange_submit(struct exchange *exchange)
{
    struct http_server *server = exchange->server;
    int64_t now_ns = clock_now_ns(), begin_by_ns = now_ns + BEGIN_MS * CLOCK_NS_PER_MS;
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
    pthread_mutex_unlock(&exchange->lock);
    exchange_ref(exchange);
    r = pool_submit(server->options.pool, lasts ? POOL_LASTING : POOL_BRIEF, exchange_thread, exchange);
    if (r < 0) {
        exchange_unref(exchange);
        count_down(server, &server->calls);
        return r;
    }
    if (route_answers_events(exchange->match.route) && !exchange->match.route->web)
        conn_watch_arm(server->watch, begin_by_ns);
    if (exchange->call.deadline_ns)
        conn_watch_arm(server->watch, exchange->call.deadline_ns);
    return 0;
}
