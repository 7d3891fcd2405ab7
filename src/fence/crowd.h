/*
 * Threads of one program that ask at once, kept from taking each other's CPUs.
 *
 * One crowd is shared by the workers of a session. See crowd.c for what this is about. All of it may be called from any thread.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define CROWD_MOST 64
#define CROWD_QUIET_NS (5 * CLOCK_NS_PER_MS) /* after so long without a request of a crowd it is over */

struct crowd {
    _Atomic bool is_refused; /* we may not do that to our clients */
    _Atomic int64_t last_ns;
    _Atomic uint64_t members[CROWD_MOST]; /* a thread's number, and whether it was changed; 0: free */
};

/* A request of `thread` was read, while others waited to be read. 0 is nobody. */
void crowd_join(struct crowd *crowd, uint32_t thread, int64_t now_ns);

/* Whoever is in it is as before, if the crowd is over. Costs next to nothing if there is none. */
void crowd_disperse(struct crowd *crowd, int64_t now_ns);
