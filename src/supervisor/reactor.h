/*
 * The supervisor's event loop, single-threaded: calls a function when a descriptor is ready or a time has come.
 *
 * A watch or timer is embedded in its owner and zeroed when idle. A callback may remove or free any watch or timer, including
 * its own: removed ones are not called any more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#define REACTOR_BATCH 64

typedef void (*watch_fn)(uint32_t events, void *cookie);
typedef void (*timer_fn)(void *cookie);

struct reactor;

struct watch {
    struct reactor *reactor; /* borrowed; NULL: idle */
    int fd;                  /* borrowed */
    uint32_t events;
    watch_fn fn;
    void *cookie;
};

struct timer {
    struct reactor *reactor; /* borrowed; NULL: idle */
    struct timer *next, **slot;
    int64_t due_ns;
    timer_fn fn;
    void *cookie;
};

struct reactor {
    int epoll_fd; /* owned */
    bool is_ending;
    struct timer *timers; /* sorted by time */
    struct epoll_event ready[REACTOR_BATCH];
    int ready_count;
};

/* Lets other threads call a function in the reactor's. Zeroed when it is closed. */
struct waker {
    int fd; /* owned: an eventfd; valid while `watch` is in use */
    struct watch watch;
    timer_fn fn;
    void *cookie;
};

int reactor_init(struct reactor *reactor);
void reactor_done(struct reactor *reactor);

/* Runs until reactor_end(). */
int reactor_run(struct reactor *reactor);
void reactor_end(struct reactor *reactor);

/* `events` as for epoll, level-triggered; 0 waits for hang-ups only. The descriptor must stay open until watch_stop(). */
int watch_start(struct watch *watch, struct reactor *reactor, int fd, uint32_t events, watch_fn fn, void *cookie);
int watch_change(struct watch *watch, uint32_t events);
void watch_stop(struct watch *watch); /* may be idle */

/* Calls `fn` once, in `delay_ms`. Restarts a timer that is running. */
void timer_start(struct timer *timer, struct reactor *reactor, int64_t delay_ms, timer_fn fn, void *cookie);
void timer_stop(struct timer *timer);

/* `fn` is called once or more after each waker_wake(), which may be called from any thread. */
int waker_open(struct waker *waker, struct reactor *reactor, timer_fn fn, void *cookie);
void waker_wake(const struct waker *waker);
bool waker_is_open(const struct waker *waker);
void waker_close(struct waker *waker); /* may be closed already */
