/* A web route's handler, in a thread of the pool (call/web.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "rest/exchange_int.h"
#include "rest/url.h"

#define QUERIES_MAX 256

static struct exchange *of_web(struct web *web)
{
    return (struct exchange *) web->call;
}

/* What is to be sent first, and is the exchange's from now on. */
static void send_head(struct exchange *exchange, struct web_response *response)
{
    exchange->page.status = response->status;
    exchange->page.content_type = response->content_type;
    exchange->page_size_bytes = response->size_bytes;
    for (size_t i = 0; i < response->header_count; i++)
        rest_response_add_header(&exchange->page, response->headers[i].name, response->headers[i].value);
}

static int web_op_begin(struct web *web)
{
    struct exchange *exchange = of_web(web);
    int64_t heartbeat_ns = clock_now_ns() + exchange->server->options.heartbeat_ms * CLOCK_NS_PER_MS;

    pthread_mutex_lock(&exchange->lock);
    bool is_cancelled = exchange->is_cancelled;
    if (!is_cancelled) {
        send_head(exchange, &web->response);
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
    const struct buf piece = { .data = (char *) (uintptr_t) bytes, .len = len };

    return exchange_send_piece(of_web(web), &piece);
}

static int web_op_drain(struct web *web)
{
    return exchange_drain(of_web(web));
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

static const struct web_ops ops = {
    .begin = web_op_begin, .write = web_op_write, .drain = web_op_drain, .upgrade = web_op_upgrade, .hang_up = web_op_hang_up
};

static void free_pairs(struct web_pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(pairs[i].name);
        free(pairs[i].value);
    }
    free(pairs);
}

static int take_captures(const struct exchange *exchange, struct web_pair *ret, struct err *err)
{
    const struct route_match *match = &exchange->match;

    for (size_t i = 0; i < match->route->capture_count; i++) {
        autodone(buf) struct buf value = BUF_EMPTY;
        int r = url_decode(match->captures[i], match->capture_lens[i], false, &value, err);

        if (r < 0)
            return r;
        ret[i] = (struct web_pair){ .name = xdup(match->route->names[i]), .value = buf_dup_take(&value) };
    }
    return 0;
}

static int take_queries(const struct exchange *exchange, struct web_pair **ret, size_t *ret_count, struct err *err)
{
    autodone(buf) struct buf name = BUF_EMPTY, value = BUF_EMPTY;
    const char *at = exchange->query, *end = at + exchange->query_len;
    size_t cap = 0;
    int r;

    while ((r = url_next_pair(&at, end, &name, &value, err)) > 0) {
        if (*ret_count == QUERIES_MAX)
            return err_invalid(err, "the query has more than %d parameters", QUERIES_MAX);
        vec_room(ret, &cap, *ret_count);
        (*ret)[(*ret_count)++] = (struct web_pair){ .name = xdupn(name.data, name.len), .value = xdupn(value.data, value.len) };
    }
    return r;
}

/* With the lock held: the answer as it is sent. */
static void end_answer(struct exchange *exchange, struct web *web)
{
    if (exchange->has_begun) {
        /* Fewer bytes than were promised: libmicrohttpd closes the connection when we tell it that this is an error. */
        exchange->is_broken = (exchange->is_cancelled || web->is_broken) && !exchange->is_head;
        return;
    }
    send_head(exchange, &web->response);
    exchange->page.body = web->response.body;
    web->response.body = BUF_EMPTY;
}

void exchange_run_web(struct exchange *exchange)
{
    const struct http_server_options *options = &exchange->server->options;
    size_t capture_count = exchange->match.route->capture_count, query_count = 0;
    struct web_pair *captures = xalloc((capture_count + 1) * sizeof(*captures)), *queries = NULL;
    struct err err = ERR_NONE;
    struct web web = {
        .ops = &ops,
        .call = &exchange->call,
        .route = exchange->match.route->web,
        .captures = captures,
        .capture_count = capture_count,
        .body = exchange->body.data ? exchange->body.data : "",
        .body_len = exchange->body.len,
        .response = { .status = 200, .content_type = "application/json", .size_bytes = -1 },
    };
    int r = take_captures(exchange, captures, &err);

    if (r == 0)
        r = take_queries(exchange, &queries, &query_count, &err);
    web.queries = queries;
    web.query_count = query_count;
    if (r < 0) {
        web.response.status = 400;
        web_add_error(&web.response.body, 400, err.text, "path and query are UTF-8 in percent encoding", false, NULL);
    } else {
        web.route->run(&web, options->web->cookie);
    }
    pthread_mutex_lock(&exchange->lock);
    end_answer(exchange, &web);
    pthread_mutex_unlock(&exchange->lock);
    web_response_done(&web.response);
    free_pairs(captures, capture_count);
    free_pairs(queries, query_count);
}
