/*
 * The supervisor's event loop: descriptors and points in time, each with a function to call. One thread.
 *
 * A watch and a timer live inside whatever they are for, zeroed when idle. Any callback may remove or free any watch or timer,
 * its own included: what was removed is not called any more.
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
    struct timer *timers; /* by time */
    struct epoll_event ready[REACTOR_BATCH];
    int ready_count;
};

int reactor_init(struct reactor *reactor);
void reactor_done(struct reactor *reactor);

/* Until reactor_end(). */
int reactor_run(struct reactor *reactor);
void reactor_end(struct reactor *reactor);

/* `events` as of epoll, level-triggered; 0 waits for hang-ups only. The descriptor must stay open until watch_stop(). */
int watch_start(struct watch *watch, struct reactor *reactor, int fd, uint32_t events, watch_fn fn, void *cookie);
int watch_change(struct watch *watch, uint32_t events);
void watch_stop(struct watch *watch); /* idle ones too */

/* Once, in `delay_ms`; one that was set is set anew. */
void timer_start(struct timer *timer, struct reactor *reactor, int64_t delay_ms, timer_fn fn, void *cookie);
void timer_stop(struct timer *timer);
