#include "rest/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "rest/exchange.h"

#define LISTENERS_MAX 16
#define EVENTS_MAX 64
#define DEAD_MAX 64
#define ACCEPTS_MAX 32 /* in one turn, so that a flood of connections does not keep us from the others */
#define NEVER INT64_MAX

struct gate {
    int fd; /* borrowed */
    bool with_tls;
};

struct watch {
    struct watch_options options;
    pthread_t thread;
    bool is_running;
    int epoll_fd, timer_fd, wake_fd, reserve_fd;
    struct gate gates[LISTENERS_MAX];
    size_t gate_count;

    pthread_mutex_t timer_lock; /* the innermost lock of the room */
    int64_t armed_ns;

    pthread_mutex_t lock;
    struct line *lines; /* those that are open; each holds a reference */
    struct line *dead;  /* closed, but perhaps still named by an event that is being looked at */
    size_t dead_count, count;
    struct line **by_fd;
    size_t by_fd_cap;
    uint64_t refused;
    bool is_ending, is_closed_to_new, is_full, is_starved;
};

void line_unref(struct line *line)
{
    if (!line || atomic_fetch_sub(&line->refs, 1) != 1)
        return;
    peer_done(&line->peer);
    free(line);
}

static void link_into(struct line **list, struct line *line)
{
    line->next = *list;
    line->link = list;
    if (line->next)
        line->next->link = &line->next;
    *list = line;
}

static void unlink_line(struct line *line)
{
    *line->link = line->next;
    if (line->next)
        line->next->link = line->link;
}

static void wake(struct watch *watch)
{
    uint64_t one = 1;

    /* Fails only when the counter is full, and then it is readable. */
    (void) !write(watch->wake_fd, &one, sizeof(one));
}

void watch_arm(struct watch *watch, int64_t when_ns)
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

static int add_to_epoll(struct watch *watch, int fd, uint32_t events, void *what)
{
    struct epoll_event event = { .events = events, .data.ptr = what };

    return epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int watch_new(const struct watch_options *options, struct watch **ret, struct err *err)
{
    struct watch *watch = xnew(struct watch);
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
        r = add_to_epoll(watch, watch->timer_fd, EPOLLIN, &watch->timer_fd);
    if (r == 0)
        r = add_to_epoll(watch, watch->wake_fd, EPOLLIN, &watch->wake_fd);
    if (r < 0) {
        watch_free(watch);
        return err_errno(err, r, "watching connections");
    }
    *ret = watch;
    return 0;
}

static void bury(struct watch *watch)
{
    while (watch->dead) {
        struct line *line = watch->dead;
        unlink_line(line);
        line_unref(line);
    }
    watch->dead_count = 0;
}

void watch_free(struct watch *watch)
{
    if (!watch)
        return;
    watch_stop(watch);
    bury(watch);
    cleanup_fd(&watch->epoll_fd);
    cleanup_fd(&watch->timer_fd);
    cleanup_fd(&watch->wake_fd);
    cleanup_fd(&watch->reserve_fd);
    pthread_mutex_destroy(&watch->lock);
    pthread_mutex_destroy(&watch->timer_lock);
    free(watch->by_fd);
    free(watch);
}

int watch_add_listener(struct watch *watch, const struct listener *listener, bool with_tls, struct err *err)
{
    struct gate *gate = &watch->gates[watch->gate_count];
    int r;

    if (watch->gate_count == LISTENERS_MAX)
        return err_invalid(err, "more than %d addresses to listen on", LISTENERS_MAX);
    *gate = (struct gate){ .fd = listener->fd, .with_tls = with_tls };
    r = add_to_epoll(watch, gate->fd, EPOLLIN, gate);
    if (r < 0)
        return err_errno(err, r, "listening on %s", listener->text);
    watch->gate_count++;
    return 0;
}

/* With the lock held. What waits in the kernel's queue meanwhile is not lost. */
static void open_gates(struct watch *watch, bool open)
{
    for (size_t i = 0; i < watch->gate_count; i++) {
        struct epoll_event event = { .events = open ? EPOLLIN : 0, .data.ptr = &watch->gates[i] };
        epoll_ctl(watch->epoll_fd, EPOLL_CTL_MOD, watch->gates[i].fd, &event);
    }
}

static void update_gates(struct watch *watch)
{
    bool is_full = watch->is_closed_to_new || watch->count >= watch->options.connections_max;

    if (is_full != watch->is_full)
        open_gates(watch, !is_full);
    watch->is_full = is_full;
}

/* Of an IPv6 peer the network counts: each host has as many addresses as it likes. */
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

static bool has_too_many(const struct watch *watch, const struct peer *peer)
{
    size_t count = 0;

    if (peer->kind != PEER_REMOTE)
        return false;
    for (const struct line *line = watch->lines; line; line = line->next)
        count += is_same_host(&line->peer, peer);
    return count >= watch->options.peer_connections_max;
}

static void put_by_fd(struct watch *watch, int fd, struct line *line)
{
    if ((size_t) fd >= watch->by_fd_cap) {
        size_t cap = (size_t) fd * 2 + 64;

        watch->by_fd = xgrow(watch->by_fd, cap, sizeof(*watch->by_fd));
        memset(watch->by_fd + watch->by_fd_cap, 0, (cap - watch->by_fd_cap) * sizeof(*watch->by_fd));
        watch->by_fd_cap = cap;
    }
    watch->by_fd[fd] = line;
}

/* With the lock held. */
static int add_line(struct watch *watch, struct line *line)
{
    int r = add_to_epoll(watch, line->fd, EPOLLRDHUP | EPOLLET, line);

    if (r < 0)
        return r;
    line->headers_by_ns = clock_now_ns() + watch->options.header_timeout_ms * CLOCK_NS_PER_MS;
    link_into(&watch->lines, line);
    put_by_fd(watch, line->fd, line);
    watch->count++;
    update_gates(watch);
    watch_arm(watch, line->headers_by_ns);
    return 0;
}

static void remove_line(struct watch *watch, struct line *line)
{
    epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, line->fd, NULL);
    watch->by_fd[line->fd] = NULL;
    unlink_line(line);
    line->is_closed = true;
    line->current = NULL;
    link_into(&watch->dead, line);
    watch->count--;
    update_gates(watch);
    if (++watch->dead_count == DEAD_MAX)
        wake(watch);
}

static void take_connection(struct watch *watch, int accepted, const struct gate *gate)
{
    autofd int fd = accepted;
    struct line *line;
    struct peer peer;
    int one = 1, r;

    if (peer_init(&peer, fd) < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* a unix socket has none */
    peer.is_tls = gate->with_tls;
    line = xnew(struct line);
    *line = (struct line){ .refs = 1, .fd = fd, .peer = peer };
    pthread_mutex_lock(&watch->lock);
    bool refuse = has_too_many(watch, &peer);
    watch->refused += refuse;
    r = refuse ? -EMFILE : add_line(watch, line);
    pthread_mutex_unlock(&watch->lock);
    if (r < 0) {
        line_unref(line);
        return;
    }
    /* The other thread may close it from here on; it is freed by this one alone. */
    if (watch->options.adopt(watch->options.cookie, steal_fd(&fd), &line->peer, gate->with_tls))
        return;
    log_warn("a connection could not be taken", LOG_STR("peer", line->peer.text));
    pthread_mutex_lock(&watch->lock);
    if (!line->is_closed)
        remove_line(watch, line);
    pthread_mutex_unlock(&watch->lock);
}

/* Without a descriptor to spare nobody can be accepted, and the queue would wake us for ever: with the one kept for this, the first in
 * the queue is accepted and closed. */
static bool shed(struct watch *watch, int gate_fd)
{
    if (!watch->is_starved)
        log_error("no descriptor left for connections: they are closed");
    watch->is_starved = true;
    cleanup_fd(&watch->reserve_fd);
    watch->reserve_fd = -1;
    int fd = accept4(gate_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    watch->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pthread_mutex_lock(&watch->lock);
    watch->refused++;
    pthread_mutex_unlock(&watch->lock);
    return fd >= 0;
}

static void accept_from(struct watch *watch, const struct gate *gate)
{
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        pthread_mutex_lock(&watch->lock);
        bool is_full = watch->is_full;
        pthread_mutex_unlock(&watch->lock);
        if (is_full)
            return;
        int fd = accept4(gate->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            watch->is_starved = false;
            take_connection(watch, fd, gate);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            if (!shed(watch, gate->fd))
                return;
        } else if (errno != ECONNABORTED && errno != EINTR && errno != EPROTO) {
            return;
        }
    }
}

static void on_hang_up(struct line *line)
{
    line->has_hung_up = true;
    if (!line->is_closed && line->current)
        exchange_cancel(line->current);
}

/* With the lock held. Everything that is due, and when the next will be. */
static void tick(struct watch *watch)
{
    int64_t now = clock_now_ns(), next = NEVER;
    uint64_t count;

    (void) !read(watch->timer_fd, &count, sizeof(count));
    pthread_mutex_lock(&watch->timer_lock);
    watch->armed_ns = NEVER;
    pthread_mutex_unlock(&watch->timer_lock);
    for (struct line *line = watch->lines; line; line = line->next) {
        int64_t due = line->current ? exchange_tick(line->current, now) : line->headers_by_ns ? line->headers_by_ns : NEVER;

        if (!line->current && due <= now) {
            /* libmicrohttpd finds the end of the stream and closes. */
            shutdown(line->fd, SHUT_RDWR);
            line->headers_by_ns = 0;
            due = NEVER;
        }
        next = due < next ? due : next;
    }
    watch_arm(watch, next);
}

static void on_event(struct watch *watch, const struct epoll_event *event)
{
    void *what = event->data.ptr;
    uint64_t count;

    if (what == &watch->timer_fd) {
        tick(watch);
    } else if (what == &watch->wake_fd) {
        (void) !read(watch->wake_fd, &count, sizeof(count));
    } else {
        on_hang_up(what);
    }
}

static bool is_gate(const struct watch *watch, const void *what)
{
    const struct gate *gate = what;

    return gate >= watch->gates && gate < watch->gates + LISTENERS_MAX;
}

static void *run(void *arg)
{
    struct epoll_event events[EVENTS_MAX];
    struct watch *watch = arg;
    bool is_ending = false;

    while (!is_ending) {
        int count = epoll_wait(watch->epoll_fd, events, EVENTS_MAX, -1);

        pthread_mutex_lock(&watch->lock);
        for (int i = 0; i < count; i++)
            if (!is_gate(watch, events[i].data.ptr))
                on_event(watch, &events[i]);
        bury(watch);
        is_ending = watch->is_ending;
        pthread_mutex_unlock(&watch->lock);
        for (int i = 0; !is_ending && i < count; i++)
            if (is_gate(watch, events[i].data.ptr))
                accept_from(watch, events[i].data.ptr);
    }
    return NULL;
}

int watch_start(struct watch *watch, struct err *err)
{
    int r = pthread_create(&watch->thread, NULL, run, watch);

    if (r != 0)
        return err_errno(err, -r, "starting the thread that accepts connections");
    watch->is_running = true;
    return 0;
}

void watch_stop(struct watch *watch)
{
    if (!watch->is_running)
        return;
    pthread_mutex_lock(&watch->lock);
    watch->is_ending = true;
    pthread_mutex_unlock(&watch->lock);
    wake(watch);
    pthread_join(watch->thread, NULL);
    watch->is_running = false;
}

void watch_stop_accepting(struct watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->is_closed_to_new = true;
    update_gates(watch);
    pthread_mutex_unlock(&watch->lock);
}

struct line *watch_find(struct watch *watch, int fd)
{
    struct line *line = NULL;

    pthread_mutex_lock(&watch->lock);
    if (fd >= 0 && (size_t) fd < watch->by_fd_cap)
        line = watch->by_fd[fd];
    if (line)
        atomic_fetch_add(&line->refs, 1);
    pthread_mutex_unlock(&watch->lock);
    return line;
}

void watch_forget(struct watch *watch, struct line *line)
{
    pthread_mutex_lock(&watch->lock);
    remove_line(watch, line);
    pthread_mutex_unlock(&watch->lock);
    line_unref(line);
}

void watch_begin(struct watch *watch, struct line *line, struct exchange *exchange)
{
    pthread_mutex_lock(&watch->lock);
    line->current = exchange;
    line->headers_by_ns = 0;
    /* Told before there was something to be cancelled. */
    if (line->has_hung_up)
        exchange_cancel(exchange);
    pthread_mutex_unlock(&watch->lock);
}

void watch_end(struct watch *watch, struct line *line)
{
    pthread_mutex_lock(&watch->lock);
    line->current = NULL;
    line->headers_by_ns = clock_now_ns() + watch->options.header_timeout_ms * CLOCK_NS_PER_MS;
    watch_arm(watch, line->headers_by_ns);
    pthread_mutex_unlock(&watch->lock);
}

void watch_cancel_all(struct watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    for (struct line *line = watch->lines; line; line = line->next)
        if (line->current)
            exchange_cancel(line->current);
    pthread_mutex_unlock(&watch->lock);
}

void watch_stats(struct watch *watch, size_t *ret_connections, uint64_t *ret_refused)
{
    pthread_mutex_lock(&watch->lock);
    *ret_connections = watch->count;
    *ret_refused = watch->refused;
    pthread_mutex_unlock(&watch->lock);
}
