#include "rpc/connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "rpc/h2.h"

#define READS_PER_TURN 4
#define WRITE_BYTES (64u << 10)
#define LINGER_MS 1000
#define FAREWELL_MS 1000 /* for the client's answer to the PING that accompanies a shutdown notice */

struct connection {
    struct connection_node node; /* for the owner's lists */
    struct rpc_context *ctx;
    int epoll_fd;               /* borrowed */
    int fd;                     /* owned */
    struct tls_session *tls;    /* owned; NULL: no TLS */
    struct conn_shared *shared; /* owned reference */
    struct h2 *h2;              /* owned; from OPEN on */
    enum connection_state state;
    uint32_t watched; /* epoll events */
    struct buf out;   /* frames, sent up to out_sent */
    size_t out_sent;
    bool is_full; /* the socket accepts nothing now */
    int64_t born_ns, heard_ns, written_ns;
    int64_t pinged_ns;  /* 0: no PING is unanswered */
    int64_t leaving_ns; /* when the shutdown notice was sent; 0: never */
    bool has_left;      /* and h2_shutdown_now() was called */
    int64_t linger_ns;
};

static const char *const protocols[] = { "h2", NULL };

static int connection_set_events(struct connection *c, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = c };
    int op = c->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (events == c->watched)
        return 0;
    if (epoll_ctl(c->epoll_fd, op, c->fd, &event) < 0)
        return -errno;
    c->watched = events;
    return 0;
}

/* Closes the descriptor now. The owner frees the memory later, because the connection may be in the current list of events. */
static void connection_kill(struct connection *c)
{
    c->state = CONNECTION_DEAD;
    h2_free(c->h2);
    c->h2 = NULL;
    tls_session_free(c->tls);
    c->tls = NULL;
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

/* A close(2) with unread input makes the kernel reset the connection, and the client may never see our last frames. */
static void connection_linger(struct connection *c)
{
    h2_free(c->h2);
    c->h2 = NULL;
    if (c->tls)
        tls_session_bye(c->tls);
    c->state = CONNECTION_LINGER;
    c->linger_ns = c->ctx->now_ns;
    if (shutdown(c->fd, SHUT_WR) < 0 || connection_set_events(c, EPOLLIN) < 0)
        connection_kill(c);
}

static int connection_open_session(struct connection *c)
{
    if (c->tls) {
        c->shared->peer.is_tls = true;
        c->shared->peer.tls_subject = tls_session_dup_subject(c->tls);
    }
    int r = h2_new(c->ctx, c->shared, c, &c->h2);
    if (r == 0)
        c->state = CONNECTION_OPEN;
    return r;
}

int connection_new(struct rpc_context *ctx, int epoll_fd, int fd, struct tls *tls, struct connection **ret)
{
    struct connection *c = xnew(struct connection);
    const int yes = 1;
    int r;

    *c = (struct connection){ .ctx = ctx, .epoll_fd = epoll_fd, .fd = fd, .shared = conn_shared_new() };
    c->born_ns = c->heard_ns = c->written_ns = ctx->now_ns;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)); /* fails on unix sockets, harmlessly */
    r = peer_init(&c->shared->peer, fd);
    if (r == 0)
        r = tls ? tls_session_new(tls, fd, protocols, &c->tls) : connection_open_session(c);
    if (r == 0)
        r = connection_set_events(c, EPOLLIN);
    if (r < 0) {
        connection_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

void connection_free(struct connection *c)
{
    if (!c)
        return;
    connection_kill(c);
    buf_done(&c->out);
    conn_shared_unref(c->shared);
    free(c);
}

static ssize_t connection_write_some(struct connection *c, const void *bytes, size_t len)
{
    ssize_t n;

    if (c->tls)
        return tls_session_write(c->tls, bytes, len);
    do
        n = send(c->fd, bytes, len, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static ssize_t connection_read_some(struct connection *c, void *bytes, size_t len)
{
    ssize_t n;

    if (c->tls)
        return tls_session_read(c->tls, bytes, len);
    do
        n = recv(c->fd, bytes, len, 0);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

/* Returns 1: all is sent; 0: the socket is full; -errno. */
static int connection_write(struct connection *c)
{
    while (c->out_sent < c->out.len) {
        ssize_t n = connection_write_some(c, c->out.data + c->out_sent, c->out.len - c->out_sent);
        if (n == -EAGAIN)
            return 0;
        if (n < 0)
            return (int) n;
        c->out_sent += (size_t) n;
        c->written_ns = c->ctx->now_ns;
    }
    c->out_sent = 0;
    if (c->out.cap > WRITE_BYTES / 4)
        buf_done(&c->out); /* otherwise a thousand idle connections would keep a thousand buffers */
    else
        buf_clear(&c->out);
    return 1;
}

static int connection_fill_output(struct connection *c)
{
    const uint8_t *bytes;
    ssize_t n = 0;

    while (c->out.len < WRITE_BYTES && (n = h2_read_output(c->h2, &bytes)) > 0)
        buf_add(&c->out, bytes, (size_t) n);
    atomic_fetch_add(&c->ctx->bytes_out, c->out.len);
    return n < 0 ? (int) n : 0;
}

void connection_flush(struct connection *c)
{
    int r = 1;

    if (c->state != CONNECTION_OPEN)
        return;
    while (r > 0) {
        r = connection_write(c);
        if (r == 1) {
            r = connection_fill_output(c);
            if (r < 0 || c->out.len == 0)
                break;
            r = 1;
        }
    }
    if (r < 0) {
        connection_kill(c);
        return;
    }
    c->is_full = c->out_sent < c->out.len;
    if (!c->is_full && h2_is_done(c->h2)) {
        connection_linger(c);
        return;
    }
    /* A client that sends without reading makes us queue answers to its frames. Stop reading its input then. */
    uint32_t events = (c->is_full ? EPOLLOUT : 0u) | (c->is_full && h2_is_clogged(c->h2) ? 0u : EPOLLIN);
    if (connection_set_events(c, events) < 0)
        connection_kill(c);
}

static void connection_handshake(struct connection *c)
{
    int r = tls_session_handshake(c->tls);

    if (r == 0)
        r = connection_open_session(c);
    else if (r == -EAGAIN)
        r = connection_set_events(c, tls_session_wants_write(c->tls) ? EPOLLOUT : EPOLLIN);
    if (r < 0)
        connection_kill(c);
}

static void connection_read(struct connection *c)
{
    char *bytes = c->ctx->read_bytes;

    /* Data that TLS has already decrypted does not make the socket readable, so read until TLS has no more. That ends, because
     * the client gets no credit meanwhile. */
    for (int i = 0; (c->tls || i < READS_PER_TURN) && c->state == CONNECTION_OPEN; i++) {
        ssize_t n = connection_read_some(c, bytes, RPC_READ_BYTES);
        if (n == -EAGAIN)
            return;
        if (n <= 0) {
            connection_kill(c);
            return;
        }
        if (h2_feed(c->h2, bytes, (size_t) n) < 0) {
            connection_flush(c);
            if (c->state == CONNECTION_OPEN)
                connection_linger(c);
            return;
        }
        c->heard_ns = c->ctx->now_ns;
        c->pinged_ns = 0;
        atomic_fetch_add(&c->ctx->bytes_in, (size_t) n);
        if (!c->tls && (size_t) n < RPC_READ_BYTES)
            return;
    }
}

static void connection_discard_input(struct connection *c)
{
    char bytes[4096];

    for (int i = 0; i < READS_PER_TURN * 4; i++) {
        ssize_t n = recv(c->fd, bytes, sizeof(bytes), 0);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            connection_kill(c);
            return;
        }
    }
}

void connection_on_event(struct connection *c, uint32_t events)
{
    if (c->state == CONNECTION_HANDSHAKE)
        connection_handshake(c);
    if (c->state == CONNECTION_LINGER)
        connection_discard_input(c);
    if (c->state != CONNECTION_OPEN)
        return;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        connection_read(c);
    connection_flush(c);
}

static int64_t earlier_ns(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns true if the time is over; otherwise `next` becomes the end of it if that is earlier. */
static bool timeout_is_over(const struct connection *c, int64_t since_ns, unsigned ms, int64_t *next)
{
    int64_t at = since_ns + ms * CLOCK_NS_PER_MS;

    if (at <= c->ctx->now_ns)
        return true;
    *next = earlier_ns(*next, at);
    return false;
}

static const char *connection_end_reason(struct connection *c, int64_t *next)
{
    const struct rpc_limits *limits = &c->ctx->limits;
    bool is_greeted = c->state == CONNECTION_OPEN && h2_is_greeted(c->h2);

    if (c->state == CONNECTION_LINGER)
        return timeout_is_over(c, c->linger_ns, LINGER_MS, next) ? "it did not hang up" : NULL;
    if (!is_greeted)
        return timeout_is_over(c, c->born_ns, limits->handshake_ms, next) ? "it did not introduce itself" : NULL;
    if (h2_headers_since_ns(c->h2) && timeout_is_over(c, h2_headers_since_ns(c->h2), limits->handshake_ms, next))
        return "its header fields do not end";
    if (c->is_full && timeout_is_over(c, c->written_ns, limits->stall_ms, next))
        return "it takes nothing";
    if (c->pinged_ns && timeout_is_over(c, c->pinged_ns, limits->keepalive_timeout_ms, next))
        return "it gives no sign of life";
    return NULL;
}

int64_t connection_tick(struct connection *c)
{
    const struct rpc_limits *limits = &c->ctx->limits;
    int64_t next = INT64_MAX;
    const char *why = c->state == CONNECTION_DEAD ? NULL : connection_end_reason(c, &next);

    if (why) {
        log_debug("a connection was closed", LOG_STR("peer", c->shared->peer.text), LOG_STR("why", why));
        connection_kill(c);
    }
    if (c->state != CONNECTION_OPEN)
        return next;
    if (!c->pinged_ns && timeout_is_over(c, c->heard_ns, limits->keepalive_ms, &next)) {
        c->pinged_ns = c->ctx->now_ns;
        h2_ping(c->h2);
        connection_flush(c);
        timeout_is_over(c, c->pinged_ns, limits->keepalive_timeout_ms, &next);
    }
    if (limits->age_ms && !c->leaving_ns && timeout_is_over(c, c->born_ns, limits->age_ms, &next))
        connection_shutdown(c);
    if (c->state == CONNECTION_OPEN && c->leaving_ns && !c->has_left && timeout_is_over(c, c->leaving_ns, FAREWELL_MS, &next)) {
        c->has_left = true;
        h2_shutdown_now(c->h2);
        connection_flush(c);
    }
    /* Each of these may have sent the last output and started to linger. */
    if (c->state == CONNECTION_LINGER)
        timeout_is_over(c, c->linger_ns, LINGER_MS, &next);
    return next;
}

void connection_shutdown(struct connection *c)
{
    if (c->leaving_ns)
        return;
    c->leaving_ns = c->ctx->now_ns;
    if (c->state == CONNECTION_HANDSHAKE)
        connection_kill(c);
    if (c->state != CONNECTION_OPEN)
        return;
    h2_shutdown(c->h2);
    connection_flush(c);
}

enum connection_state connection_state(const struct connection *c)
{
    return c->state;
}

bool connection_is_of_our_user(const struct connection *c)
{
    return peer_is_our_user(&c->shared->peer);
}

struct connection_node *connection_node(struct connection *c)
{
    return &c->node;
}
