#include "rest/conn_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "rest/exchange.h"

#define LISTENERS_MAX 16
#define EVENTS_MAX 64
#define ACCEPTS_MAX 32 /* in one turn, so that a flood of connections does not keep the thread from the others */
#define SHUT_READ_MS 200
#define NEVER INT64_MAX

/* The data of an epoll event: a connection's number and descriptor, or number 0 and an index into `listeners`. The descriptor alone may belong to a
 * newer connection when the event is handled. */
#define EVENT_OF(number, low) ((uint64_t) (number) << 32 | (uint32_t) (low))
#define EVENT_TIMER EVENT_OF(0, LISTENERS_MAX)

struct watched_listener {
    int fd; /* borrowed */
    bool with_tls;
};

struct conn_watch {
    struct conn_watch_options options;
    pthread_t thread;
    bool is_running;
    int epoll_fd, timer_fd, reserve_fd;
    struct watched_listener listeners[LISTENERS_MAX];
    size_t listener_count;
    bool is_starved; /* of the thread alone */

    pthread_mutex_t timer_lock; /* the innermost lock of the module */
    int64_t armed_ns;

    pthread_mutex_t lock;
    struct http_conn **conns; /* by descriptor; each holds a reference; NULL: none */
    size_t conns_cap, count;
    uint32_t last_number;
    uint64_t refused;
    bool is_ending, is_closed_to_new, is_full;
};

void http_conn_unref(struct http_conn *conn)
{
    if (!conn || atomic_fetch_sub(&conn->refs, 1) != 1)
        return;
    peer_done(&conn->peer);
    free(conn);
}

void conn_watch_arm(struct conn_watch *watch, int64_t when_ns)
{
    if (when_ns == NEVER)
        return;
    pthread_mutex_lock(&watch->timer_lock);
    if (when_ns < watch->armed_ns) {
        struct timespec at = clock_timespec_of_ns(when_ns > 0 ? when_ns : 1);

        watch->armed_ns = when_ns;
        timerfd_settime(watch->timer_fd, TFD_TIMER_ABSTIME, &(struct itimerspec){ .it_value = at }, NULL);
    }
    pthread_mutex_unlock(&watch->timer_lock);
}

static int conn_watch_epoll_add(struct conn_watch *watch, int fd, uint32_t events, uint64_t what)
{
    struct epoll_event event = { .events = events, .data.u64 = what };

    return epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int conn_watch_new(const struct conn_watch_options *options, struct conn_watch **ret, struct err *err)
{
    struct conn_watch *watch = xnew(struct conn_watch);
    int r = 0;

    watch->options = *options;
    watch->armed_ns = NEVER;
    pthread_mutex_init(&watch->lock, NULL);
    pthread_mutex_init(&watch->timer_lock, NULL);
    watch->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    watch->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    watch->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (watch->epoll_fd < 0 || watch->timer_fd < 0 || watch->reserve_fd < 0)
        r = -errno;
    if (r == 0)
        r = conn_watch_epoll_add(watch, watch->timer_fd, EPOLLIN, EVENT_TIMER);
    if (r < 0) {
        conn_watch_free(watch);
        return err_errno(err, r, "watching connections");
    }
    *ret = watch;
    return 0;
}

void conn_watch_free(struct conn_watch *watch)
{
    if (!watch)
        return;
    conn_watch_stop(watch);
    cleanup_fd(&watch->epoll_fd);
    cleanup_fd(&watch->timer_fd);
    cleanup_fd(&watch->reserve_fd);
    pthread_mutex_destroy(&watch->lock);
    pthread_mutex_destroy(&watch->timer_lock);
    free(watch->conns);
    free(watch);
}

/* ---- connections ---- */

/* Call with the lock held. While there may be no more connections, new ones wait in the kernel's queue. */
static void conn_watch_update_listeners(struct conn_watch *watch)
{
    bool is_full = watch->is_closed_to_new || watch->count >= watch->options.connections_max;

    for (size_t i = 0; is_full != watch->is_full && i < watch->listener_count; i++) {
        struct epoll_event event = { .events = is_full ? 0 : EPOLLIN, .data.u64 = EVENT_OF(0, i) };
        epoll_ctl(watch->epoll_fd, EPOLL_CTL_MOD, watch->listeners[i].fd, &event);
    }
    watch->is_full = is_full;
}

/* Call with the lock held. Takes a reference if it returns 0. */
static int conn_watch_add(struct conn_watch *watch, struct http_conn *conn)
{
    int r;

    conn->number = ++watch->last_number ? watch->last_number : ++watch->last_number;
    r = conn_watch_epoll_add(watch, conn->fd, EPOLLRDHUP | EPOLLET, EVENT_OF(conn->number, conn->fd));
    if (r < 0)
        return r;
    atomic_fetch_add(&conn->refs, 1);
    conn->headers_by_ns = clock_now_ns() + watch->options.header_timeout_ms * CLOCK_NS_PER_MS;
    if ((size_t) conn->fd >= watch->conns_cap) {
        size_t cap = (size_t) conn->fd * 2 + 64;

        watch->conns = xgrow(watch->conns, cap, sizeof(*watch->conns));
        memset(watch->conns + watch->conns_cap, 0, (cap - watch->conns_cap) * sizeof(*watch->conns));
        watch->conns_cap = cap;
    }
    watch->conns[conn->fd] = conn;
    watch->count++;
    conn_watch_update_listeners(watch);
    conn_watch_arm(watch, conn->headers_by_ns);
    return 0;
}

/* Call with the lock held. */
static void conn_watch_remove(struct conn_watch *watch, struct http_conn *conn)
{
    epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
    watch->conns[conn->fd] = NULL;
    conn->current = NULL;
    watch->count--;
    conn_watch_update_listeners(watch);
    http_conn_unref(conn);
}

struct http_conn *conn_watch_find(struct conn_watch *watch, int fd)
{
    struct http_conn *conn = NULL;

    pthread_mutex_lock(&watch->lock);
    if (fd >= 0 && (size_t) fd < watch->conns_cap)
        conn = watch->conns[fd];
    if (conn)
        atomic_fetch_add(&conn->refs, 1);
    pthread_mutex_unlock(&watch->lock);
    return conn;
}

void conn_watch_forget(struct conn_watch *watch, struct http_conn *conn)
{
    pthread_mutex_lock(&watch->lock);
    conn_watch_remove(watch, conn);
    pthread_mutex_unlock(&watch->lock);
    http_conn_unref(conn);
}

void conn_watch_begin(struct conn_watch *watch, struct http_conn *conn, struct exchange *exchange)
{
    bool has_hung_up;

    pthread_mutex_lock(&watch->lock);
    conn->current = exchange;
    conn->headers_by_ns = 0;
    has_hung_up = conn->has_hung_up;
    pthread_mutex_unlock(&watch->lock);
    /* It hung up before there was anything to cancel. */
    if (has_hung_up)
        exchange_cancel(exchange);
}

void conn_watch_end(struct conn_watch *watch, struct http_conn *conn)
{
    pthread_mutex_lock(&watch->lock);
    conn->current = NULL;
    conn->headers_by_ns = clock_now_ns() + watch->options.header_timeout_ms * CLOCK_NS_PER_MS;
    conn_watch_arm(watch, conn->headers_by_ns);
    pthread_mutex_unlock(&watch->lock);
}

/* ---- requests ---- */

/* Exchanges are called without our lock, and held by a reference meanwhile: they resume connections, for which libmicrohttpd has a lock that
 * it also holds while it tells us that a request is over. */
struct exchanges {
    struct exchange **items;
    size_t count, cap;
};

/* Call with the lock held. */
static void exchanges_add(struct exchanges *list, struct exchange *exchange)
{
    vec_room(&list->items, &list->cap, list->count);
    exchange_ref(exchange);
    list->items[list->count++] = exchange;
}

static void exchanges_done(struct exchanges *list)
{
    for (size_t i = 0; i < list->count; i++)
        exchange_unref(list->items[i]);
    free(list->items);
    *list = (struct exchanges){ 0 };
}

static void exchanges_cancel(struct exchanges *list)
{
    for (size_t i = 0; i < list->count; i++)
        exchange_cancel(list->items[i]);
}

/* Call with the lock held. Adds all requests that are being served. */
static void exchanges_collect(struct exchanges *list, const struct conn_watch *watch)
{
    for (size_t fd = 0; fd < watch->conns_cap; fd++)
        if (watch->conns[fd] && watch->conns[fd]->current)
            exchanges_add(list, watch->conns[fd]->current);
}

void conn_watch_cancel_all(struct conn_watch *watch)
{
    struct exchanges served = { 0 };

    pthread_mutex_lock(&watch->lock);
    exchanges_collect(&served, watch);
    pthread_mutex_unlock(&watch->lock);
    exchanges_cancel(&served);
    exchanges_done(&served);
}

/* Call with the lock held. The connection may have been closed since the event. */
static void conn_watch_on_hang_up(struct conn_watch *watch, uint64_t event, struct exchanges *doomed)
{
    struct http_conn *conn = watch->conns[(uint32_t) event];

    if (!conn || conn->number != event >> 32)
        return;
    conn->has_hung_up = true;
    if (conn->current)
        exchanges_add(doomed, conn->current);
    conn->shut_read_at_ns = clock_now_ns() + SHUT_READ_MS * CLOCK_NS_PER_MS;
    conn_watch_arm(watch, conn->shut_read_at_ns);
}

/* libmicrohttpd waits for edges, and after a short read for the next one. A client's last bytes and its end come as one edge: the end of
 * an unfinished request would not be seen before its time is up. This makes another edge, and takes away nothing: what the client sent is still
 * read, and one that closed only its own half still gets its answer. */
static int64_t http_conn_shutdown_read(struct http_conn *conn, int64_t now)
{
    if (conn->shut_read_at_ns && conn->shut_read_at_ns <= now) {
        shutdown(conn->fd, SHUT_RD);
        conn->shut_read_at_ns = 0;
    }
    return conn->shut_read_at_ns ? conn->shut_read_at_ns : NEVER;
}

/* Unless the connection serves another request by now: then its descriptor may be another connection's. */
static void conn_watch_shut_out(struct conn_watch *watch, const struct exchange *exchange)
{
    pthread_mutex_lock(&watch->lock);
    for (size_t fd = 0; fd < watch->conns_cap; fd++)
        if (watch->conns[fd] && watch->conns[fd]->current == exchange)
            shutdown((int) fd, SHUT_RDWR);
    pthread_mutex_unlock(&watch->lock);
}

/* Does what is due for requests. Returns when the next is. */
static int64_t conn_watch_tick_exchanges(struct conn_watch *watch, int64_t now)
{
    struct exchanges served = { 0 };
    int64_t next = NEVER;

    pthread_mutex_lock(&watch->lock);
    exchanges_collect(&served, watch);
    pthread_mutex_unlock(&watch->lock);
    for (size_t i = 0; i < served.count; i++) {
        bool is_slow;
        int64_t due = exchange_tick(served.items[i], now, &is_slow);

        next = due < next ? due : next;
        if (is_slow)
            conn_watch_shut_out(watch, served.items[i]);
    }
    exchanges_done(&served);
    return next;
}

/* The same for connections. */
static int64_t conn_watch_tick_conns(struct conn_watch *watch, int64_t now)
{
    int64_t next = NEVER;

    pthread_mutex_lock(&watch->lock);
    for (size_t fd = 0; fd < watch->conns_cap; fd++) {
        struct http_conn *conn = watch->conns[fd];

        if (!conn)
            continue;
        int64_t due = !conn->current && conn->headers_by_ns ? conn->headers_by_ns : NEVER;
        if (due <= now) {
            /* libmicrohttpd then reads the end of the stream and closes the connection. */
            shutdown(conn->fd, SHUT_RDWR);
            conn->headers_by_ns = 0;
            due = NEVER;
        }
        next = due < next ? due : next;
        due = http_conn_shutdown_read(conn, now);
        next = due < next ? due : next;
    }
    pthread_mutex_unlock(&watch->lock);
    return next;
}

static void conn_watch_tick(struct conn_watch *watch)
{
    int64_t now = clock_now_ns();
    uint64_t count;

    (void) !read(watch->timer_fd, &count, sizeof(count));
    /* Whoever has something due from here on arms the timer again. */
    pthread_mutex_lock(&watch->timer_lock);
    watch->armed_ns = NEVER;
    pthread_mutex_unlock(&watch->timer_lock);
    conn_watch_arm(watch, conn_watch_tick_exchanges(watch, now));
    conn_watch_arm(watch, conn_watch_tick_conns(watch, now));
}

/* ---- accepting ---- */

int conn_watch_add_listener(struct conn_watch *watch, const struct listener *listener, bool with_tls, struct err *err)
{
    struct watched_listener *watched = &watch->listeners[watch->listener_count];
    int r;

    if (watch->listener_count == LISTENERS_MAX)
        return err_invalid(err, "more than %d addresses to listen on", LISTENERS_MAX);
    *watched = (struct watched_listener){ .fd = listener->fd, .with_tls = with_tls };
    r = conn_watch_epoll_add(watch, watched->fd, EPOLLIN, EVENT_OF(0, watch->listener_count));
    if (r < 0)
        return err_errno(err, r, "listening on %s", listener->text);
    watch->listener_count++;
    return 0;
}

/* For IPv6 the network counts, because each host has as many addresses as it likes. */
static bool is_same_host(const struct peer *a, const struct peer *b)
{
    const struct sockaddr_in *a4 = (const void *) &a->remote, *b4 = (const void *) &b->remote;
    const struct sockaddr_in6 *a6 = (const void *) &a->remote, *b6 = (const void *) &b->remote;

    if (a->kind != PEER_REMOTE || b->kind != PEER_REMOTE || a->remote.ss_family != b->remote.ss_family)
        return false;
    if (a->remote.ss_family == AF_INET)
        return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
    return memcmp(&a6->sin6_addr, &b6->sin6_addr, 8) == 0;
}

/* A connection that says nothing is held for as long as a request's header may take. Were strangers' not bounded, one of them could hold all
 * that there are, again and again: another user of this host, or a sandbox on its network. */
static bool conn_watch_has_too_many(const struct conn_watch *watch, const struct peer *peer)
{
    size_t same = 0, other_users = 0;

    if (peer_is_our_user(peer))
        return false;
    for (size_t fd = 0; fd < watch->conns_cap; fd++) {
        const struct http_conn *conn = watch->conns[fd];

        same += conn && is_same_host(&conn->peer, peer);
        other_users += conn && !peer_is_our_user(&conn->peer);
    }
    return same >= watch->options.peer_connections_max || other_users >= PEER_OTHER_USERS_MAX(watch->options.connections_max);
}

/* Logged once, until a connection is accepted again. */
static void conn_watch_note_refusal(struct conn_watch *watch)
{
    if (!watch->is_starved)
        log_error("no descriptor left for connections: they are closed");
    watch->is_starved = true;
    pthread_mutex_lock(&watch->lock);
    watch->refused++;
    pthread_mutex_unlock(&watch->lock);
}

static void conn_watch_take(struct conn_watch *watch, int accepted, const struct watched_listener *watched)
{
    autofd int fd = accepted;
    struct http_conn *conn;
    struct peer peer;
    int one = 1, r;

    r = peer_init(&peer, fd);
    /* Either the client is gone already, or descriptors or memory were short. */
    if (r < 0 && r != -ENOTCONN)
        conn_watch_note_refusal(watch);
    if (r < 0)
        return;
    watch->is_starved = false;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* a unix socket has none */
    peer.is_tls = watched->with_tls;
    conn = xnew(struct http_conn);
    *conn = (struct http_conn){ .refs = 1, .fd = fd, .peer = peer }; /* ours, until the end of this function */
    pthread_mutex_lock(&watch->lock);
    bool refuse = conn_watch_has_too_many(watch, &peer);
    watch->refused += refuse;
    r = refuse ? -EMFILE : conn_watch_add(watch, conn);
    pthread_mutex_unlock(&watch->lock);
    if (r == 0 && !watch->options.adopt(watch->options.cookie, steal_fd(&fd), &conn->peer, watched->with_tls)) {
        log_warn("a connection could not be taken", LOG_STR("peer", conn->peer.text));
        pthread_mutex_lock(&watch->lock);
        if (watch->conns[conn->fd] == conn)
            conn_watch_remove(watch, conn);
        pthread_mutex_unlock(&watch->lock);
    }
    http_conn_unref(conn);
}

/* Without a descriptor to spare nobody can be accepted, and the queue would wake us for ever: with the one kept for this, the first in
 * the queue is accepted and closed. */
static bool conn_watch_reject_one(struct conn_watch *watch, int listen_fd)
{
    conn_watch_note_refusal(watch);
    cleanup_fd(&watch->reserve_fd);
    watch->reserve_fd = -1;
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    watch->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

static void conn_watch_accept_from(struct conn_watch *watch, const struct watched_listener *watched)
{
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        pthread_mutex_lock(&watch->lock);
        bool is_full = watch->is_full;
        pthread_mutex_unlock(&watch->lock);
        if (is_full)
            return;
        int fd = accept4(watched->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            conn_watch_take(watch, fd, watched);
        } else if (err_errno_is_exhaustion(-errno)) {
            if (!conn_watch_reject_one(watch, watched->fd))
                return;
        } else if (errno != ECONNABORTED && errno != EINTR && errno != EPROTO) {
            return;
        }
    }
}

void conn_watch_stop_accepting(struct conn_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->is_closed_to_new = true;
    conn_watch_update_listeners(watch);
    pthread_mutex_unlock(&watch->lock);
}

/* ---- the thread ---- */

static bool conn_watch_is_ending(struct conn_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    bool is_ending = watch->is_ending;
    pthread_mutex_unlock(&watch->lock);
    return is_ending;
}

/* conn_watch_tick() takes whatever made the timer go off, so is_ending is looked at after it. */
static void *conn_watch_thread(void *arg)
{
    struct epoll_event events[EVENTS_MAX];
    struct conn_watch *watch = arg;

    while (!conn_watch_is_ending(watch)) {
        int count = epoll_wait(watch->epoll_fd, events, EVENTS_MAX, -1);
        struct exchanges doomed = { 0 };
        bool is_time = false;

        pthread_mutex_lock(&watch->lock);
        for (int i = 0; i < count; i++) {
            is_time |= events[i].data.u64 == EVENT_TIMER;
            if (events[i].data.u64 > EVENT_TIMER)
                conn_watch_on_hang_up(watch, events[i].data.u64, &doomed);
        }
        pthread_mutex_unlock(&watch->lock);
        exchanges_cancel(&doomed);
        exchanges_done(&doomed);
        if (is_time)
            conn_watch_tick(watch);
        for (int i = 0; i < count; i++)
            if (events[i].data.u64 < EVENT_TIMER)
                conn_watch_accept_from(watch, &watch->listeners[events[i].data.u64]);
    }
    return NULL;
}

int conn_watch_start(struct conn_watch *watch, struct err *err)
{
    int r = pthread_create(&watch->thread, NULL, conn_watch_thread, watch);

    if (r != 0)
        return err_errno(err, -r, "starting the thread that accepts connections");
    watch->is_running = true;
    return 0;
}

void conn_watch_stop(struct conn_watch *watch)
{
    if (!watch->is_running)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->is_ending = true;
    pthread_mutex_unlock(&watch->lock);
    conn_watch_arm(watch, 0);
    pthread_join(watch->thread, NULL);
    watch->is_running = false;
}

void conn_watch_stats(struct conn_watch *watch, size_t *ret_connections, uint64_t *ret_refused)
{
    pthread_mutex_lock(&watch->lock);
    *ret_connections = watch->count;
    *ret_refused = watch->refused;
    pthread_mutex_unlock(&watch->lock);
}
