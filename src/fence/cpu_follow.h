/*
 * Serves a client on its own CPU.
 *
 * The workers of a session share one cpu_follow. Each also has a client_affinity, which only it touches. cpu_follow.c explains
 * why and which privileges it takes; without them all of this does nothing.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cpu_follow {
    bool is_possible;
    int cpus;
    _Atomic int64_t measure_after_ns; /* when to measure the load of the machine again */
    _Atomic int running;              /* runnable threads at the last measurement, ours not counted */
    _Atomic int load;                 /* average number of runnable threads over the last minute */
    _Atomic int yielding_thread;      /* thread that is SCHED_IDLE for its client; 0: none */
    _Atomic int64_t backoff_until_ns; /* not before: it did not pay */
    _Atomic int64_t backoff_ns;
};

struct client_affinity {
    int thread;      /* gettid() of the worker */
    uint32_t pid;    /* process of the last request */
    unsigned streak; /* how many requests in a row came from it, each soon after the other */
    unsigned far;    /* how many of the last ones came from another CPU */
    unsigned near;   /* how many in a row did not */
    int64_t last_ns, migrate_after_ns, migrate_backoff_ns;
};

void cpu_follow_init(struct cpu_follow *cpu_follow);

/* The calling thread has read a request of `pid`. `is_near`: it was there as soon as we let other threads run. The call may
 * move the thread to the client's CPU and make it SCHED_IDLE; another thread must then call cpu_follow_restore() if it does not
 * come to run. */
void cpu_follow_request(struct cpu_follow *cpu_follow, struct client_affinity *affinity, uint32_t pid, bool is_near,
                        int64_t now_ns);

/* Gives the calling thread its normal policy back: it is about to do something else. */
void cpu_follow_end(struct cpu_follow *cpu_follow, struct client_affinity *affinity);

/* Gives the thread that is SCHED_IDLE, if any, its normal policy back, and lets no thread become SCHED_IDLE for a while. */
void cpu_follow_restore(struct cpu_follow *cpu_follow, int64_t now_ns);

/* Returns true if more threads want to run than there are CPUs, also if that is unknown. */
bool cpu_follow_is_overloaded(struct cpu_follow *cpu_follow, int64_t now_ns);
void cpu_follow_remeasure(struct cpu_follow *cpu_follow); /* the load may have changed */

/* Returns true if the calling thread is SCHED_IDLE for its client. */
bool cpu_follow_is_yielding(struct cpu_follow *cpu_follow, const struct client_affinity *affinity);
