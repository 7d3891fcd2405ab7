/* What the tests of this directory share. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "supervisor/reactor.h"

#define TURNS_MAX 1000

/* The end of a run of the reactor. */
struct run_end {
    struct reactor *reactor;
    struct timer timer;
    int turns_left;
};

static inline bool has_more_to_do(const struct reactor *reactor)
{
    struct pollfd ready = { .fd = reactor->epoll_fd, .events = POLLIN };

    return poll(&ready, 1, 0) > 0 || (reactor->timers && reactor->timers->due_ns <= clock_now_ns());
}

static inline void end_when_done(void *cookie)
{
    struct run_end *end = cookie;

    if (end->turns_left-- > 0 && has_more_to_do(end->reactor))
        timer_start(&end->timer, end->reactor, 0, end_when_done, end);
    else
        reactor_end(end->reactor);
}

/* What happens in the next moments, and all that is due by then: on a busy machine the time may be over before the first turn. What
 * never ends, such as a hang-up that nobody takes, gets TURNS_MAX turns more. */
static inline void turn_for(struct reactor *reactor, int ms)
{
    struct run_end end = { .reactor = reactor, .turns_left = TURNS_MAX };

    reactor->is_ending = false;
    timer_start(&end.timer, reactor, ms, end_when_done, &end);
    assert_int_equal(reactor_run(reactor), 0);
    timer_stop(&end.timer);
}

/* Until something has come about, or a time that is long for everything here. */
static inline void turn_until(struct reactor *reactor, const bool *done)
{
    for (int i = 0; i < 6000 && !*done; i++)
        turn_for(reactor, 10);
    assert_true(*done);
}
