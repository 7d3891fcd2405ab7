#include "supervisor/reactor.h"

#include <errno.h>
#include <limits.h>
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
