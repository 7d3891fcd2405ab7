#include "supervisor/reactor.h"

#include <errno.h>
#include <limits.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"

int reactor_init(struct reactor *reactor)
{
    *reactor = (struct reactor){ .epoll_fd = epoll_create1(EPOLL_CLOEXEC) };
    return reactor->epoll_fd < 0 ? -errno : 0;
}

void reactor_done(struct reactor *reactor)
{
    if (reactor->epoll_fd >= 0)
        close(reactor->epoll_fd);
    reactor->epoll_fd = -1;
}

static int next_timeout_ms(const struct reactor *reactor)
{
    if (!reactor->timers)
        return -1;
    int64_t left = reactor->timers->due_ns - clock_now_ns();
    /* Rounds up: waking up too early would mean spinning for the rest. */
    int64_t ms = left <= 0 ? 0 : (left + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;
    return ms > INT_MAX ? INT_MAX : (int) ms;
}

static void call_timers(struct reactor *reactor)
{
    int64_t now = clock_now_ns();

    while (reactor->timers && reactor->timers->due_ns <= now && !reactor->is_ending) {
        struct timer *timer = reactor->timers;
        timer_stop(timer);
        timer->fn(timer->cookie);
    }
}

int reactor_run(struct reactor *reactor)
{
    while (!reactor->is_ending) {
        int count = epoll_wait(reactor->epoll_fd, reactor->ready, REACTOR_BATCH, next_timeout_ms(reactor));

        if (count < 0 && errno != EINTR)
            return -errno;
        reactor->ready_count = count < 0 ? 0 : count;
        for (int i = 0; i < reactor->ready_count && !reactor->is_ending; i++) {
            struct watch *watch = reactor->ready[i].data.ptr;
            if (watch)
                watch->fn(reactor->ready[i].events, watch->cookie);
        }
        reactor->ready_count = 0;
        call_timers(reactor);
    }
    return 0;
}

void reactor_end(struct reactor *reactor)
{
    reactor->is_ending = true;
}

int watch_start(struct watch *watch, struct reactor *reactor, int fd, uint32_t events, watch_fn fn, void *cookie)
{
    struct epoll_event event = { .events = events, .data.ptr = watch };

    *watch = (struct watch){ .fd = fd, .events = events, .fn = fn, .cookie = cookie };
    if (epoll_ctl(reactor->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return -errno;
    watch->reactor = reactor;
    return 0;
}

int watch_change(struct watch *watch, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = watch };

    if (!watch->reactor || watch->events == events)
        return 0;
    watch->events = events;
    return epoll_ctl(watch->reactor->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event) < 0 ? -errno : 0;
}

void watch_stop(struct watch *watch)
{
    struct reactor *reactor = watch->reactor;

    if (!reactor)
        return;
    epoll_ctl(reactor->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    for (int i = 0; i < reactor->ready_count; i++) {
        if (reactor->ready[i].data.ptr == watch)
            reactor->ready[i].data.ptr = NULL;
    }
    watch->reactor = NULL;
}

void timer_start(struct timer *timer, struct reactor *reactor, int64_t delay_ms, timer_fn fn, void *cookie)
{
    struct timer **slot = &reactor->timers;

    timer_stop(timer);
    *timer =
        (struct timer){ .reactor = reactor, .due_ns = clock_now_ns() + delay_ms * CLOCK_NS_PER_MS, .fn = fn, .cookie = cookie };
    while (*slot && (*slot)->due_ns <= timer->due_ns)
        slot = &(*slot)->next;
    list_add(slot, timer);
}

void timer_stop(struct timer *timer)
{
    if (!timer->reactor)
        return;
    list_remove(timer);
    timer->reactor = NULL;
}

static void on_wake(uint32_t events, void *cookie)
{
    struct waker *waker = cookie;
    uint64_t count;

    (void) events;
    if (read(waker->fd, &count, sizeof(count)) == sizeof(count))
        waker->fn(waker->cookie);
}

int waker_open(struct waker *waker, struct reactor *reactor, timer_fn fn, void *cookie)
{
    int r;

    *waker = (struct waker){ .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .fn = fn, .cookie = cookie };
    if (waker->fd < 0)
        return -errno;
    r = watch_start(&waker->watch, reactor, waker->fd, EPOLLIN, on_wake, waker);
    if (r < 0)
        close(waker->fd);
    return r;
}

void waker_wake(const struct waker *waker)
{
    uint64_t one = 1;

    if (write(waker->fd, &one, sizeof(one)) < 0)
        return; /* the counter is full, so the reactor will call it anyway */
}

bool waker_is_open(const struct waker *waker)
{
    return waker->watch.reactor != NULL;
}

void waker_close(struct waker *waker)
{
    if (!waker_is_open(waker))
        return;
    watch_stop(&waker->watch);
    close(waker->fd);
}
