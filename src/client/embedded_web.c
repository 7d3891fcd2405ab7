/*
 * The routes of workspaces in this process: found by the server's own table, and answered by its handlers, in the caller's thread. What they
 * write in pieces is given to the caller as it comes.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace_routes.h"
#include "base/mem.h"
#include "client/own_web.h"
#include "rest/route.h"
#include "rest/url.h"

/* ---- the handler's side ---- */

static struct own_web *of_call(struct call *call)
{
    return (struct own_web *) ((char *) call - offsetof(struct own_web, call));
}

static int op_recv(struct call *call, ProtobufCMessage **ret, struct err *err)
{
    (void) call;
    (void) ret;
    (void) err;
    return 0;
}

static int op_send(struct call *call, const ProtobufCMessage *message)
{
    (void) call;
    (void) message;
    return -ECANCELED;
}

static const char *op_header(struct call *call, const char *name)
{
    (void) call;
    (void) name;
    return NULL;
}

static void op_set_trailer(struct call *call, const char *name, const char *value)
{
    (void) call;
    (void) name;
    (void) value;
}

static int op_cancel_fd(struct call *call)
{
    return of_call(call)->cancel_fd;
}

static bool op_is_cancelled(struct call *call)
{
    struct pollfd p = { .fd = of_call(call)->cancel_fd, .events = POLLIN };

    return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

static const struct call_ops call_ops = {
    .recv = op_recv,
    .send = op_send,
    .header = op_header,
    .set_trailer = op_set_trailer,
    .cancel_fd = op_cancel_fd,
    .is_cancelled = op_is_cancelled,
};

static int op_begin(struct web *web)
{
    (void) web;
    return 0;
}

static int op_write(struct web *web, const void *bytes, size_t len)
{
    struct own_web *own = (struct own_web *) web;
    int r = 0;

    if (op_is_cancelled(&own->call))
        return -ECANCELED;
    if (own->wanted->on_bytes && web->response.status == 200)
        r = own->wanted->on_bytes(bytes, len, own->wanted->cookie, &own->failure);
    else
        buf_add(own->answer, bytes, len);
    if (r < 0)
        own->failed = r;
    return r < 0 ? -ECANCELED : 0;
}

static int op_upgrade(struct web *web, struct web_socket *ret, struct err *err)
{
    struct own_web *own = (struct own_web *) web;

    if (own->on_upgrade)
        return own->on_upgrade(own, ret, err);
    return err_set(err, ERR_UNIMPLEMENTED, -EPROTONOSUPPORT, "this is a WebSocket, and the request asks for none");
}

static void op_hang_up(struct web *web)
{
    struct own_web *own = (struct own_web *) web;

    if (own->on_hang_up)
        own->on_hang_up(own);
}

/* Who waits for the answer needs the service; who talks has a connection of its own. */
static void op_idle(struct web *web)
{
    embedded_rest(((struct own_web *) web)->embedded);
}

static int op_busy(struct web *web, struct err *err)
{
    return embedded_wake(((struct own_web *) web)->embedded, err);
}

static const struct web_ops web_ops = {
    .idle = op_idle, .busy = op_busy, .begin = op_begin, .write = op_write, .upgrade = op_upgrade, .hang_up = op_hang_up
};

/* ---- the request ---- */

static void pairs_add(struct own_pairs *pairs, const char *name, const char *value)
{
    vec_room(&pairs->items, &pairs->cap, pairs->count);
    pairs->items[pairs->count++] = (struct web_pair){ .name = xdup(name), .value = xdup(value) };
}

static void pairs_done(struct own_pairs *pairs)
{
    for (size_t i = 0; i < pairs->count; i++) {
        free(pairs->items[i].name);
        free(pairs->items[i].value);
    }
    free(pairs->items);
}

static int take_captures(const struct route_match *match, struct own_pairs *ret, struct err *err)
{
    for (size_t i = 0; i < match->route->capture_count; i++) {
        autodone(buf) struct buf value = BUF_EMPTY;
        int r = url_decode(match->captures[i], match->capture_lens[i], false, &value, err);

        if (r < 0)
            return r;
        pairs_add(ret, match->route->names[i], value.data ? value.data : "");
    }
    return 0;
}

static int take_queries(const char *query, struct own_pairs *ret, struct err *err)
{
    autodone(buf) struct buf name = BUF_EMPTY, value = BUF_EMPTY;
    const char *end = query + strlen(query);
    int r;

    while ((r = url_next_pair(&query, end, &name, &value, err)) > 0)
        pairs_add(ret, name.data ? name.data : "", value.data ? value.data : "");
    return r;
}

static int find_route(struct embedded *embedded, const struct client_web *request, size_t path_len, struct route_match *ret,
                      struct err *err)
{
    static const struct method_table no_methods;
    int r = 0;

    if (!embedded->routes)
        r = route_table_new(&no_methods, compat_routes_make(&embedded->api), NULL, 0, &embedded->routes, err);
    if (r < 0)
        return r;
    route_find(embedded->routes, request->verb, request->path, path_len, ret);
    return ret->route ? 0 : err_set(err, ERR_UNIMPLEMENTED, -ENOSYS, "there is no %s %s", request->verb, request->path);
}

int own_web_init(struct own_web *own, struct embedded *embedded, const struct client_web *wanted, struct buf *answer,
                 struct err *err)
{
    static char request_id[] = "embedded";
    size_t path_len = strcspn(wanted->path, "?");
    struct route_match match = { 0 };
    int r;

    *own = (struct own_web){
        .call = { .ops = &call_ops, .peer = &embedded->peer, .request_id = request_id },
        .cancel_fd = embedded->cancel_fd,
        .embedded = embedded,
        .wanted = wanted,
        .answer = answer,
        .body = wanted->body ? json_dumps(wanted->body, JSON_COMPACT) : NULL,
    };
    r = find_route(embedded, wanted, path_len, &match, err);
    if (r == 0)
        r = take_captures(&match, &own->captures, err);
    if (r == 0)
        r = take_queries(wanted->path[path_len] ? wanted->path + path_len + 1 : "", &own->queries, err);
    if (r < 0)
        return r;
    own->web = (struct web){
        .ops = &web_ops,
        .call = &own->call,
        .route = match.route->web,
        .captures = own->captures.items,
        .capture_count = own->captures.count,
        .queries = own->queries.items,
        .query_count = own->queries.count,
        .body = own->body ? own->body : "",
        .body_len = own->body ? strlen(own->body) : 0,
        .response = { .status = 200, .content_type = "application/json", .size_bytes = -1 },
    };
    return 0;
}

void own_web_done(struct own_web *own)
{
    web_response_done(&own->web.response);
    call_done(&own->call);
    pairs_done(&own->captures);
    pairs_done(&own->queries);
    free(own->body);
}

int own_web_end(struct own_web *own, int *ret_status, struct err *err)
{
    struct web_response *response = &own->web.response;

    if (own->failed < 0) {
        *err = own->failure;
        return own->failed;
    }
    if (op_is_cancelled(&own->call))
        return err_set(err, ERR_CANCELLED, -ECANCELED, "interrupted");
    if (own->web.is_broken)
        return err_set(err, ERR_UNAVAILABLE, -EPIPE, "the answer ended before its end");
    *ret_status = response->status;
    if (response->body.len > 0 && op_write(&own->web, response->body.data, response->body.len) < 0) {
        *err = own->failure;
        return own->failed ? own->failed : -ECANCELED;
    }
    return 0;
}

int embedded_web(struct embedded *embedded, const struct client_web *request, int *ret_status, struct buf *ret, struct err *err)
{
    struct own_web own;
    int r = own_web_init(&own, embedded, request, ret, err);

    if (r == 0) {
        own.web.route->run(&own.web, &embedded->api);
        r = own_web_end(&own, ret_status, err);
    }
    own_web_done(&own);
    return r;
}
