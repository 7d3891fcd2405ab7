#include "rest/watch.h"

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
#include "rest/exchange.h"
#include "rest/watch_int.h"

#define EVENTS_MAX 64
#define DEAD_MAX 64
#define NUDGE_MS 200
#define NEVER INT64_MAX

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

int watch_epoll_add(struct watch *watch, int fd, uint32_t events, void *what)
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
        r = watch_epoll_add(watch, watch->timer_fd, EPOLLIN, &watch->timer_fd);
    if (r == 0)
        r = watch_epoll_add(watch, watch->wake_fd, EPOLLIN, &watch->wake_fd);
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
int watch_add_line(struct watch *watch, struct line *line)
{
    int r = watch_epoll_add(watch, line->fd, EPOLLRDHUP | EPOLLET, line);

    if (r < 0)
        return r;
    line->headers_by_ns = clock_now_ns() + watch->options.header_timeout_ms * CLOCK_NS_PER_MS;
    link_into(&watch->lines, line);
    put_by_fd(watch, line->fd, line);
    watch->count++;
    watch_update_gates(watch);
    watch_arm(watch, line->headers_by_ns);
    return 0;
}

void watch_remove_line(struct watch *watch, struct line *line)
{
    epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, line->fd, NULL);
    watch->by_fd[line->fd] = NULL;
    unlink_line(line);
    line->is_closed = true;
    line->current = NULL;
    link_into(&watch->dead, line);
    watch->count--;
    watch_update_gates(watch);
    if (++watch->dead_count == DEAD_MAX)
        wake(watch);
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
static void exchanges_take(struct exchanges *list, const struct watch *watch)
{
    for (struct line *line = watch->lines; line; line = line->next)
        if (line->current)
            exchanges_add(list, line->current);
}

static void on_hang_up(struct watch *watch, struct line *line, struct exchanges *doomed)
{
    line->has_hung_up = true;
    if (line->is_closed)
        return;
    if (line->current)
        exchanges_add(doomed, line->current);
    line->nudge_at_ns = clock_now_ns() + NUDGE_MS * CLOCK_NS_PER_MS;
    watch_arm(watch, line->nudge_at_ns);
}

/* libmicrohttpd waits for edges, and after a short read for the next one. A client's last bytes and its end come as one edge: the end of
 * an unfinished request would not be seen before its time is up. This makes another edge, and takes away nothing: what the client sent is still
 * read, and one that closed only its own half still gets its answer. */
static int64_t nudge(struct line *line, int64_t now)
{
    if (line->nudge_at_ns && line->nudge_at_ns <= now) {
        shutdown(line->fd, SHUT_RD);
        line->nudge_at_ns = 0;
    }
    return line->nudge_at_ns ? line->nudge_at_ns : NEVER;
}

/* Its line, unless that serves another one by now: then its number may be somebody else's. */
static void shut_out(struct watch *watch, const struct exchange *exchange)
{
    pthread_mutex_lock(&watch->lock);
    for (struct line *line = watch->lines; line; line = line->next)
        if (line->current == exchange)
            shutdown(line->fd, SHUT_RDWR);
    pthread_mutex_unlock(&watch->lock);
}

/* What is due of exchanges, and when the next will be. */
static int64_t tick_exchanges(struct watch *watch, int64_t now)
{
    struct exchanges served = { 0 };
    int64_t next = NEVER;

    pthread_mutex_lock(&watch->lock);
    exchanges_take(&served, watch);
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
static int64_t tick_lines(struct watch *watch, int64_t now)
{
    int64_t next = NEVER;

    pthread_mutex_lock(&watch->lock);
    for (struct line *line = watch->lines; line; line = line->next) {
        int64_t due = !line->current && line->headers_by_ns ? line->headers_by_ns : NEVER;

        if (due <= now) {
            /* libmicrohttpd finds the end of the stream and closes. */
            shutdown(line->fd, SHUT_RDWR);
            line->headers_by_ns = 0;
            due = NEVER;
        }
        next = due < next ? due : next;
        due = nudge(line, now);
        next = due < next ? due : next;
    }
    pthread_mutex_unlock(&watch->lock);
    return next;
}

static void tick(struct watch *watch)
{
    int64_t now = clock_now_ns();
    uint64_t count;

    (void) !read(watch->timer_fd, &count, sizeof(count));
    /* Whoever has something due from here on arms it again. */
    pthread_mutex_lock(&watch->timer_lock);
    watch->armed_ns = NEVER;
    pthread_mutex_unlock(&watch->timer_lock);
    watch_arm(watch, tick_exchanges(watch, now));
    watch_arm(watch, tick_lines(watch, now));
}

/* With the lock held. */
static void on_event(struct watch *watch, const struct epoll_event *event, struct exchanges *doomed, bool *ret_is_time)
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

static bool is_gate(const struct watch *watch, const void *what)
{
    const struct gate *gate = what;

    return gate >= watch->gates && gate < watch->gates + WATCH_LISTENERS_MAX;
}

static void *run(void *arg)
{
    struct epoll_event events[EVENTS_MAX];
    struct watch *watch = arg;
    bool is_ending = false;

    while (!is_ending) {
        int count = epoll_wait(watch->epoll_fd, events, EVENTS_MAX, -1);
        struct exchanges doomed = { 0 };
        bool is_time = false;

        pthread_mutex_lock(&watch->lock);
        for (int i = 0; i < count; i++)
            if (!is_gate(watch, events[i].data.ptr))
                on_event(watch, &events[i], &doomed, &is_time);
        bury(watch);
        is_ending = watch->is_ending;
        pthread_mutex_unlock(&watch->lock);
        exchanges_cancel(&doomed);
        exchanges_done(&doomed);
        if (is_time)
            tick(watch);
        for (int i = 0; !is_ending && i < count; i++)
            if (is_gate(watch, events[i].data.ptr))
                watch_accept_from(watch, events[i].data.ptr);
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
    watch_remove_line(watch, line);
    pthread_mutex_unlock(&watch->lock);
    line_unref(line);
}

void watch_begin(struct watch *watch, struct line *line, struct exchange *exchange)
{
    bool has_hung_up;

    pthread_mutex_lock(&watch->lock);
    line->current = exchange;
    line->headers_by_ns = 0;
    has_hung_up = line->has_hung_up;
    pthread_mutex_unlock(&watch->lock);
    /* Told before there was something to be cancelled. */
    if (has_hung_up)
        exchange_cancel(exchange);
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
    struct exchanges served = { 0 };

    pthread_mutex_lock(&watch->lock);
    exchanges_take(&served, watch);
    pthread_mutex_unlock(&watch->lock);
    exchanges_cancel(&served);
    exchanges_done(&served);
}

void watch_stats(struct watch *watch, size_t *ret_connections, uint64_t *ret_refused)
{
    pthread_mutex_lock(&watch->lock);
    *ret_connections = watch->count;
    *ret_refused = watch->refused;
    pthread_mutex_unlock(&watch->lock);
}
