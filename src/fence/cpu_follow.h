/*
 * Serving a client on its own CPU.
 *
 * One cpu_follow is shared by the workers of a session; each of them brings a client_affinity, which only it touches. See cpu_follow.c for what
 * this is about and what it takes; where the process may not do that, all of this does nothing.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cpu_follow {
    bool is_possible;
    int cpus;
    int nice;                         /* what we were started with */
    _Atomic int64_t measure_after_ns; /* when to see again how busy the machine is */
    _Atomic int running;              /* threads that ran or wanted to, when we last looked; ourselves not counted */
    _Atomic int load;                 /* and how many on average over the last minute */
    _Atomic int yielding_thread;      /* thread that stands back for its client; 0: none */
    _Atomic int64_t backoff_until_ns; /* not before: it did not pay */
    _Atomic int64_t backoff_ns;
};

struct client_affinity {
    int thread;      /* gettid() of the worker */
    uint32_t pid;    /* who asked last */
    unsigned streak; /* how many requests in a row were its, one soon after the other */
    unsigned far;    /* how many of the last ones came from another CPU */
    unsigned near;   /* how many in a row did not */
    int64_t last_ns, migrate_after_ns, migrate_backoff_ns;
    bool is_raised; /* of those whom it serves */
};

void cpu_follow_init(struct cpu_follow *cpu_follow);

/* A request of `pid` was read; `is_near`: it was there as soon as we let others run. The calling thread may find itself on the
 * client's CPU, and standing back: then someone else must be there who calls cpu_follow_restore() when it is missed. */
void cpu_follow_request(struct cpu_follow *cpu_follow, struct client_affinity *affinity, uint32_t pid, bool is_near,
                        int64_t now_ns);

/* Many ask at once, and all of them wait for the calling thread: it goes first, until cpu_follow_end(). */
void cpu_follow_raise(struct cpu_follow *cpu_follow, struct client_affinity *affinity);

/* The calling thread, which may stand back or go first, is about to do something else. */
void cpu_follow_end(struct cpu_follow *cpu_follow, struct client_affinity *affinity);

/* Whoever stands back, if anybody, competes for its CPU again, and nobody does it for a while. */
void cpu_follow_restore(struct cpu_follow *cpu_follow, int64_t now_ns);

/* Whether there are more who want to run than CPUs. Where that can't be found out there are. */
bool cpu_follow_is_overloaded(struct cpu_follow *cpu_follow, int64_t now_ns);
void cpu_follow_remeasure(struct cpu_follow *cpu_follow); /* it may have changed */

/* Whether the calling thread stands back. */
bool cpu_follow_is_yielding(struct cpu_follow *cpu_follow, const struct client_affinity *affinity);
