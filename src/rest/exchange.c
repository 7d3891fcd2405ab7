#include "rest/exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "rest/exchange_int.h"
#include "rest/request_head.h"

#define BODY_BYTES_PER_SEC 1024
#define FAILURE_BYTES ((size_t) 1 << 20)

struct exchange *exchange_new(struct http_server *server, const char *target)
{
    struct exchange *exchange = xnew(struct exchange);

    exchange->refs = 1;
    exchange->server = server;
    exchange->target = xdup(target);
    exchange->path = exchange->target;
    exchange->path_len = strcspn(target, "?");
    exchange->query = exchange->path + exchange->path_len;
    exchange->query += *exchange->query == '?';
    exchange->query_len = strlen(exchange->query);
    exchange->cancel_fd = -1;
    exchange->total_size = -1;
    pthread_mutex_init(&exchange->lock, NULL);
    pthread_cond_init(&exchange->changed, NULL);
    exchange->call.ops = &exchange_call_ops;
    exchange->call.failure_bytes = FAILURE_BYTES;
    return exchange;
}

void exchange_ref(struct exchange *exchange)
{
    atomic_fetch_add(&exchange->refs, 1);
}

void web_pairs_free(struct web_pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(pairs[i].name);
        free(pairs[i].value);
    }
    free(pairs);
}

void exchange_unref(struct exchange *exchange)
{
    if (!exchange || atomic_fetch_sub(&exchange->refs, 1) != 1)
        return;
    call_done(&exchange->call);
    free(exchange->call.request_id);
    web_pairs_free(exchange->headers, exchange->header_count);
    web_pairs_free(exchange->trailers, exchange->trailer_count);
    if (exchange->metadata)
        protobuf_c_message_free_unpacked(exchange->metadata, NULL);
    multipart_free(exchange->form);
    buf_done(&exchange->form_name);
    buf_done(&exchange->form_value);
    buf_done(&exchange->body);
    buf_done(&exchange->inbox);
    buf_done(&exchange->outbox);
    buf_done(&exchange->early);
    free(exchange->upgrade_accept);
    web_response_done(&exchange->response);
    cleanup_fd(&exchange->cancel_fd);
    free(exchange->body_refusal);
    free(exchange->refusal);
    free(exchange->allowed_origin);
    free(exchange->verb);
    free(exchange->target);
    pthread_mutex_destroy(&exchange->lock);
    pthread_cond_destroy(&exchange->changed);
    http_conn_unref(exchange->conn);
    free(exchange);
}

const char *exchange_header(const struct exchange *exchange, const char *name)
{
    for (size_t i = 0; i < exchange->header_count; i++)
        if (strcmp(exchange->headers[i].name, name) == 0)
            return exchange->headers[i].value;
    return NULL;
}

bool exchange_is_open(const struct exchange *exchange)
{
    return exchange->is_open;
}

void exchange_suspend(struct exchange *exchange)
{
    exchange->is_suspended = true;
    MHD_suspend_connection(exchange->connection);
}

void exchange_wake(struct exchange *exchange)
{
    if (!exchange->is_suspended)
        return;
    exchange->is_suspended = false;
    MHD_resume_connection(exchange->connection);
}

void exchange_cancel_locked(struct exchange *exchange)
{
    uint64_t one = 1;

    if (exchange->is_cancelled)
        return;
    exchange->is_cancelled = true;
    if (exchange->cancel_fd >= 0)
        (void) !write(exchange->cancel_fd, &one, sizeof(one));
    /* The connection stays suspended until the handler returns: the handler uses the request, and its answer may still be sent. */
    pthread_cond_broadcast(&exchange->changed);
}

void exchange_cancel(struct exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    if (!exchange->has_ended)
        exchange_cancel_locked(exchange);
    pthread_mutex_unlock(&exchange->lock);
}

static enum MHD_Result exchange_add_header(void *cookie, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct exchange *exchange = cookie;
    (void) kind;

    vec_room(&exchange->headers, &exchange->header_cap, exchange->header_count);
    struct web_pair *pair = &exchange->headers[exchange->header_count++];
    *pair = (struct web_pair){ .name = xdup(name), .value = xdup(value ? value : "") };
    for (char *at = pair->name; *at; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char) (*at - 'A' + 'a');
    return MHD_YES;
}

static void exchange_take_request_id(struct exchange *exchange)
{
    const char *given = exchange_header(exchange, "x-request-id");
    char made[ID_TEXT_MAX];

    if (given && *given && strlen(given) <= 128 &&
        strspn(given, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == strlen(given)) {
        exchange->call.request_id = xdup(given);
        return;
    }
    id_new("req_", made);
    exchange->call.request_id = xdup(made);
}

enum MHD_Result exchange_open(struct exchange *exchange, struct MHD_Connection *connection, const char *url, const char *verb,
                              const char *version)
{
    const union MHD_ConnectionInfo *context = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_conn *conn = context ? context->socket_context : NULL;
    enum MHD_Result result = MHD_YES;

    if (!conn)
        return MHD_NO;
    atomic_fetch_add(&conn->refs, 1);
    exchange->conn = conn;
    exchange->call.peer = &conn->peer;
    exchange->connection = connection;
    exchange->verb = xdup(verb);
    exchange->is_head = strcmp(verb, "HEAD") == 0;
    exchange->is_http_1_0 = strcmp(version, "HTTP/1.1") != 0;
    exchange->is_open = true;
    exchange->head_flaw = request_head_flaw(connection, verb, url, exchange->target, version);
    MHD_get_connection_values(connection, MHD_HEADER_KIND, exchange_add_header, exchange);
    exchange_take_request_id(exchange);
    exchange_accept_headers(exchange, &result);
    conn_watch_begin(exchange->server->watch, conn, exchange);
    if (exchange->has_body && !exchange->is_answered) {
        int64_t check_ns = clock_now_ns() + exchange->server->options.body_timeout_ms * CLOCK_NS_PER_MS;

        pthread_mutex_lock(&exchange->lock);
        exchange->body_check_ns = check_ns;
        pthread_mutex_unlock(&exchange->lock);
        conn_watch_arm(exchange->server->watch, check_ns);
    }
    return result;
}

/* libmicrohttpd sends an answer only after it has read the whole body. So a body that is not needed is read and dropped, up to a limit. */
static enum MHD_Result exchange_discard_body(struct exchange *exchange, size_t *len)
{
    exchange->discarded += *len;
    *len = 0;
    return exchange->discarded > EXCHANGE_DISCARD_MAX ? MHD_NO : MHD_YES;
}

static enum MHD_Result exchange_keep_whole(struct exchange *exchange, const char *bytes, size_t *len)
{
    if (exchange->body.len + *len > exchange->body_max) {
        exchange->body_is_too_large = true;
        buf_done(&exchange->body);
        exchange->body = BUF_EMPTY;
    }
    if (exchange->body_is_too_large)
        return exchange_discard_body(exchange, len);
    buf_add(&exchange->body, bytes, *len);
    *len = 0;
    return MHD_YES;
}

/* Called with the lock held; releases it while it parses a form. It takes all bytes or suspends the connection: libmicrohttpd offers what it did not
 * take only together with the next piece, which may never come. */
static enum MHD_Result exchange_keep_streamed(struct exchange *exchange, const char *bytes, size_t *len)
{
    while (*len > 0) {
        size_t held = exchange->inbox.len - exchange->inbox_at;

        if (exchange->has_ended || exchange->is_cancelled || exchange->body_refusal)
            return exchange_discard_body(exchange, len);
        if (held >= EXCHANGE_INBOX_MAX) {
            exchange->body_was_held = true;
            exchange_suspend(exchange);
            return MHD_YES;
        }
        size_t room = EXCHANGE_INBOX_MAX - held, taken = *len < room ? *len : room;
        pthread_mutex_unlock(&exchange->lock);
        exchange_feed(exchange, bytes, taken);
        pthread_mutex_lock(&exchange->lock);
        bytes += taken;
        *len -= taken;
        pthread_cond_broadcast(&exchange->changed);
    }
    return MHD_YES;
}

enum MHD_Result exchange_receive_body(struct exchange *exchange, const char *bytes, size_t *len)
{
    enum MHD_Result result;

    if (exchange->is_answered) {
        *len = 0;
        return MHD_YES;
    }
    pthread_mutex_lock(&exchange->lock);
    size_t before = *len;
    switch (exchange->body_mode) {
    case BODY_IGNORED:
        result = exchange_discard_body(exchange, len);
        break;
    case BODY_WHOLE:
        result = exchange_keep_whole(exchange, bytes, len);
        break;
    default:
        result = exchange_keep_streamed(exchange, bytes, len);
    }
    exchange->received += before - *len;
    pthread_mutex_unlock(&exchange->lock);
    return result;
}

enum MHD_Result exchange_proceed(struct exchange *exchange)
{
    enum { WAIT, FINAL, STREAM, UPGRADE } next = WAIT;

    if (exchange->is_answered)
        return MHD_YES;
    pthread_mutex_lock(&exchange->lock);
    bool is_first = !exchange->body_is_complete;
    pthread_mutex_unlock(&exchange->lock);
    if (is_first) {
        exchange_finish_body(exchange);
        if (exchange->refusal_status)
            return exchange_send_rejection(exchange);
        if (exchange->body_is_too_large)
            return exchange_reject_status(exchange, 413, ERR_RESOURCE_EXHAUSTED, "the body is too large");
        if (exchange->body_mode != BODY_STREAMED && exchange_submit(exchange) < 0)
            return exchange_reject(exchange, ERR_RESOURCE_EXHAUSTED, "too many calls at once");
    }
    pthread_mutex_lock(&exchange->lock);
    if (exchange->has_begun)
        next = STREAM;
    else if (exchange->has_ended)
        next = FINAL;
    else if (exchange->upgrade_accept)
        next = UPGRADE;
    else
        exchange_suspend(exchange);
    pthread_cond_broadcast(&exchange->changed);
    bool is_taken = exchange->is_taken;
    pthread_mutex_unlock(&exchange->lock);
    if (is_taken && next != WAIT)
        return MHD_NO;
    if (next == WAIT)
        return MHD_YES;
    if (next == UPGRADE)
        return exchange_send_upgrade(exchange);
    return next == FINAL ? exchange_send_final(exchange) : exchange_send_stream(exchange);
}

/* libmicrohttpd may hold a lock of its own when it reports the end of a request, and takes the same lock, inside ours, when we suspend or resume a
 * connection. That cannot deadlock although it looks like it (tools/tsan.supp names this function): only a suspended connection is resumed,
 * and the request of a suspended connection does not end. */
static __attribute__((noinline)) void lock_at_the_end(struct exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
}

void exchange_close(struct exchange *exchange, bool was_sent)
{
    if (exchange->conn)
        conn_watch_end(exchange->server->watch, exchange->conn);
    lock_at_the_end(exchange);
    exchange->is_suspended = false;
    if (!was_sent || !exchange->has_ended)
        exchange_cancel_locked(exchange);
    bool is_submitted = exchange->is_submitted;
    pthread_mutex_unlock(&exchange->lock);
    if (is_submitted)
        exchange_count_answer(exchange);
    exchange_unref(exchange);
}

/* Returns true if the body makes no progress although there is room for it. */
static bool exchange_has_stalled(struct exchange *exchange, int64_t now_ns)
{
    unsigned span_ms = exchange->server->options.body_timeout_ms;
    uint64_t least = (uint64_t) span_ms * BODY_BYTES_PER_SEC / 1000;

    bool is_slow =
        !exchange->is_suspended && !exchange->body_was_held && exchange->received - exchange->received_before < least;

    exchange->body_was_held = false;
    exchange->received_before = exchange->received;
    exchange->body_check_ns = now_ns + span_ms * CLOCK_NS_PER_MS;
    return is_slow;
}

static void exchange_check_events(struct exchange *exchange, int64_t now_ns)
{
    if (!exchange->has_begun && now_ns >= exchange->begin_by_ns) {
        exchange->has_begun = true;
        exchange_wake(exchange);
    }
    if (exchange->has_begun && now_ns >= exchange->heartbeat_ns) {
        if (exchange->outbox.len == exchange->outbox_at) {
            buf_add_str(&exchange->outbox, ":\n\n");
            exchange_wake(exchange);
        }
        exchange->heartbeat_ns = now_ns + exchange->server->options.heartbeat_ms * CLOCK_NS_PER_MS;
    }
}

static int64_t exchange_earlier_ns(int64_t a, int64_t b)
{
    return b != 0 && b < a ? b : a;
}

int64_t exchange_tick(struct exchange *exchange, int64_t now_ns, bool *ret_is_slow)
{
    bool is_events = route_answers_events(exchange->match.route);
    int64_t next = INT64_MAX;

    *ret_is_slow = false;
    pthread_mutex_lock(&exchange->lock);
    if (exchange->body_check_ns && !exchange->body_is_complete && now_ns >= exchange->body_check_ns)
        *ret_is_slow = exchange_has_stalled(exchange, now_ns);
    if (exchange->is_submitted && !exchange->has_ended && !exchange->is_cancelled) {
        if (exchange->call.deadline_ns && now_ns >= exchange->call.deadline_ns) {
            exchange->is_late = true;
            exchange_cancel_locked(exchange);
        } else if (is_events) {
            exchange_check_events(exchange, now_ns);
            next = exchange->has_begun ? exchange->heartbeat_ns : exchange->begin_by_ns;
        }
        if (!exchange->is_cancelled)
            next = exchange_earlier_ns(next, exchange->call.deadline_ns);
    }
    if (!exchange->body_is_complete)
        next = exchange_earlier_ns(next, exchange->body_check_ns);
    pthread_mutex_unlock(&exchange->lock);
    return next;
}
