#include "rest/conn_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "rest/conn_watch_int.h"
#include "rest/exchange.h"

#define EVENTS_MAX 64
#define DEAD_MAX 64
#define SHUT_READ_MS 200
#define NEVER INT64_MAX

void http_conn_unref(struct http_conn *conn)
{
    if (!conn || atomic_fetch_sub(&conn->refs, 1) != 1)
        return;
    peer_done(&conn->peer);
    free(conn);
}

static void link_into(struct http_conn **list, struct http_conn *conn)
{
    conn->next = *list;
    conn->link = list;
    if (conn->next)
        conn->next->link = &conn->next;
    *list = conn;
}

static void unlink_conn(struct http_conn *conn)
{
    *conn->link = conn->next;
    if (conn->next)
        conn->next->link = conn->link;
}

static void conn_watch_wake(struct conn_watch *watch)
{
    uint64_t one = 1;

    /* Fails only when the counter is full, and then it is readable. */
    (void) !write(watch->wake_fd, &one, sizeof(one));
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

int conn_watch_epoll_add(struct conn_watch *watch, int fd, uint32_t events, void *what)
{
    struct epoll_event event = { .events = events, .data.ptr = what };

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
    watch->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    watch->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (watch->epoll_fd < 0 || watch->timer_fd < 0 || watch->wake_fd < 0 || watch->reserve_fd < 0)
        r = -errno;
    if (r == 0)
        r = conn_watch_epoll_add(watch, watch->timer_fd, EPOLLIN, &watch->timer_fd);
    if (r == 0)
        r = conn_watch_epoll_add(watch, watch->wake_fd, EPOLLIN, &watch->wake_fd);
    if (r < 0) {
        conn_watch_free(watch);
        return err_errno(err, r, "watching connections");
    }
    *ret = watch;
    return 0;
}

static void conn_watch_free_dead(struct conn_watch *watch)
{
    while (watch->dead) {
        struct http_conn *conn = watch->dead;
        unlink_conn(conn);
        http_conn_unref(conn);
    }
    watch->dead_count = 0;
}

void conn_watch_free(struct conn_watch *watch)
{
    if (!watch)
        return;
    conn_watch_stop(watch);
    conn_watch_free_dead(watch);
    cleanup_fd(&watch->epoll_fd);
    cleanup_fd(&watch->timer_fd);
    cleanup_fd(&watch->wake_fd);
    cleanup_fd(&watch->reserve_fd);
    pthread_mutex_destroy(&watch->lock);
    pthread_mutex_destroy(&watch->timer_lock);
    free(watch->by_fd);
    free(watch);
}

static void put_by_fd(struct conn_watch *watch, int fd, struct http_conn *conn)
{
    if ((size_t) fd >= watch->by_fd_cap) {
        size_t cap = (size_t) fd * 2 + 64;

        watch->by_fd = xgrow(watch->by_fd, cap, sizeof(*watch->by_fd));
        memset(watch->by_fd + watch->by_fd_cap, 0, (cap - watch->by_fd_cap) * sizeof(*watch->by_fd));
        watch->by_fd_cap = cap;
    }
    watch->by_fd[fd] = conn;
}

/* With the lock held. */
int conn_watch_add(struct conn_watch *watch, struct http_conn *conn)
{
    int r = conn_watch_epoll_add(watch, conn->fd, EPOLLRDHUP | EPOLLET, conn);

    if (r < 0)
        return r;
    conn->headers_by_ns = clock_now_ns() + watch->options.header_timeout_ms * CLOCK_NS_PER_MS;
    link_into(&watch->conns, conn);
    put_by_fd(watch, conn->fd, conn);
    watch->count++;
    conn_watch_update_listeners(watch);
    conn_watch_arm(watch, conn->headers_by_ns);
    return 0;
}

void conn_watch_remove(struct conn_watch *watch, struct http_conn *conn)
{
    epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
    watch->by_fd[conn->fd] = NULL;
    unlink_conn(conn);
    conn->is_closed = true;
    conn->current = NULL;
    link_into(&watch->dead, conn);
    watch->count--;
    conn_watch_update_listeners(watch);
    if (++watch->dead_count == DEAD_MAX)
        conn_watch_wake(watch);
}

/* Exchanges are called without our lock, and held by a reference meanwhile: they resume connections, for which libmicrohttpd has a lock that
 * it also holds while it tells us that a request is over. */
struct exchanges {
    struct exchange **items;
    size_t count, cap;
};

/* With the lock held. */
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

/* With the lock held, those that are being served. */
static void exchanges_collect(struct exchanges *list, const struct conn_watch *watch)
{
    for (struct http_conn *conn = watch->conns; conn; conn = conn->next)
        if (conn->current)
            exchanges_add(list, conn->current);
}

static void on_hang_up(struct conn_watch *watch, struct http_conn *conn, struct exchanges *doomed)
{
    conn->has_hung_up = true;
    if (conn->is_closed)
        return;
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

/* Its line, unless that serves another one by now: then its number may be somebody else's. */
static void shut_out(struct conn_watch *watch, const struct exchange *exchange)
{
    pthread_mutex_lock(&watch->lock);
    for (struct http_conn *conn = watch->conns; conn; conn = conn->next)
        if (conn->current == exchange)
            shutdown(conn->fd, SHUT_RDWR);
    pthread_mutex_unlock(&watch->lock);
}

/* What is due of exchanges, and when the next will be. */
static int64_t tick_exchanges(struct conn_watch *watch, int64_t now)
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
            shut_out(watch, served.items[i]);
    }
    exchanges_done(&served);
    return next;
}

/* Likewise of lines. */
static int64_t tick_conns(struct conn_watch *watch, int64_t now)
{
    int64_t next = NEVER;

    pthread_mutex_lock(&watch->lock);
    for (struct http_conn *conn = watch->conns; conn; conn = conn->next) {
        int64_t due = !conn->current && conn->headers_by_ns ? conn->headers_by_ns : NEVER;

        if (due <= now) {
            /* libmicrohttpd finds the end of the stream and closes. */
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
    /* Whoever has something due from here on arms it again. */
    pthread_mutex_lock(&watch->timer_lock);
    watch->armed_ns = NEVER;
    pthread_mutex_unlock(&watch->timer_lock);
    conn_watch_arm(watch, tick_exchanges(watch, now));
    conn_watch_arm(watch, tick_conns(watch, now));
}

/* With the lock held. */
static void on_event(struct conn_watch *watch, const struct epoll_event *event, struct exchanges *doomed, bool *ret_is_time)
{
    void *what = event->data.ptr;
    uint64_t count;

    if (what == &watch->timer_fd)
        *ret_is_time = true;
    else if (what == &watch->wake_fd)
        (void) !read(watch->wake_fd, &count, sizeof(count));
    else
        on_hang_up(watch, what, doomed);
}

static bool is_listener(const struct conn_watch *watch, const void *what)
{
    const struct watched_listener *watched = what;

    return watched >= watch->listeners && watched < watch->listeners + CONN_WATCH_LISTENERS_MAX;
}

static void *conn_watch_thread(void *arg)
{
    struct epoll_event events[EVENTS_MAX];
    struct conn_watch *watch = arg;
    bool is_ending = false;

    while (!is_ending) {
        int count = epoll_wait(watch->epoll_fd, events, EVENTS_MAX, -1);
        struct exchanges doomed = { 0 };
        bool is_time = false;

        pthread_mutex_lock(&watch->lock);
        for (int i = 0; i < count; i++)
            if (!is_listener(watch, events[i].data.ptr))
                on_event(watch, &events[i], &doomed, &is_time);
        conn_watch_free_dead(watch);
        is_ending = watch->is_ending;
        pthread_mutex_unlock(&watch->lock);
        exchanges_cancel(&doomed);
        exchanges_done(&doomed);
        if (is_time)
            conn_watch_tick(watch);
        for (int i = 0; !is_ending && i < count; i++)
            if (is_listener(watch, events[i].data.ptr))
                conn_watch_accept_from(watch, events[i].data.ptr);
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
    conn_watch_wake(watch);
    pthread_join(watch->thread, NULL);
    watch->is_running = false;
}

struct http_conn *conn_watch_find(struct conn_watch *watch, int fd)
{
    struct http_conn *conn = NULL;

    pthread_mutex_lock(&watch->lock);
    if (fd >= 0 && (size_t) fd < watch->by_fd_cap)
        conn = watch->by_fd[fd];
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
    /* Told before there was something to be cancelled. */
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

void conn_watch_cancel_all(struct conn_watch *watch)
{
    struct exchanges served = { 0 };

    pthread_mutex_lock(&watch->lock);
    exchanges_collect(&served, watch);
    pthread_mutex_unlock(&watch->lock);
    exchanges_cancel(&served);
    exchanges_done(&served);
}

void conn_watch_stats(struct conn_watch *watch, size_t *ret_connections, uint64_t *ret_refused)
{
    pthread_mutex_lock(&watch->lock);
    *ret_connections = watch->count;
    *ret_refused = watch->refused;
    pthread_mutex_unlock(&watch->lock);
}
