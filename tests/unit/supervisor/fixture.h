/* What the tests of this directory share. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "supervisor/reactor.h"

static inline void end_it(void *cookie)
{
    reactor_end(cookie);
}

/* What happens in the next moments. */
static inline void turn_for(struct reactor *reactor, int ms)
{
    struct timer end = { 0 };

    reactor->is_ending = false;
    timer_start(&end, reactor, ms, end_it, reactor);
    assert_int_equal(reactor_run(reactor), 0);
    timer_stop(&end);
}

/* Until something has come about, or a time that is long for everything here. */
static inline void turn_until(struct reactor *reactor, const bool *done)
{
    for (int i = 0; i < 3000 && !*done; i++)
        turn_for(reactor, 10);
    assert_true(*done);
}
