/*
 * Serving a client on its own CPU.
 *
 * One follow is shared by the workers of a session; each of them brings a pursuit, which only it touches. See follow.c for what
 * this is about and what it takes; where the process may not do that, all of this does nothing.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct follow {
    bool is_possible;
    int cpus;
    int nice;                      /* what we were started with */
    _Atomic int64_t look_after_ns; /* when to see again how busy the machine is */
    _Atomic int running;           /* threads that ran or wanted to, when we last looked; ourselves not counted */
    _Atomic int load;              /* and how many on average over the last minute */
    _Atomic int behind;            /* thread that stands back for its client; 0: none */
    _Atomic int64_t rest_until_ns; /* not before: it did not pay */
    _Atomic int64_t rest_ns;
};

struct pursuit {
    int thread;     /* gettid() of the worker */
    uint32_t pid;   /* who asked last */
    unsigned run;   /* how many requests in a row were its, one soon after the other */
    unsigned apart; /* how many of the last ones came from another CPU */
    unsigned near;  /* how many in a row did not */
    int64_t last_ns, hop_after_ns, hop_wait_ns;
    bool is_ahead; /* of those whom it serves */
};

void follow_init(struct follow *follow);

/* A request of `pid` was read; `is_near`: it was there as soon as we let others run. The calling thread may find itself on the
 * client's CPU, and standing back: then someone else must be there who calls follow_rescue() when it is missed. */
void follow_request(struct follow *follow, struct pursuit *pursuit, uint32_t pid, bool is_near, int64_t now_ns);

/* Many ask at once, and all of them wait for the calling thread: it goes first, until follow_end(). */
void follow_crowd(struct follow *follow, struct pursuit *pursuit);

/* The calling thread, which may stand back or go first, is about to do something else. */
void follow_end(struct follow *follow, struct pursuit *pursuit);

/* Whoever stands back, if anybody, competes for its CPU again, and nobody does it for a while. */
void follow_rescue(struct follow *follow, int64_t now_ns);

/* Whether there are more who want to run than CPUs. Where that can't be found out there are. */
bool follow_is_crowded(struct follow *follow, int64_t now_ns);
void follow_look_again(struct follow *follow); /* it may have changed */

/* Whether the calling thread stands back. */
bool follow_is_behind(struct follow *follow, const struct pursuit *pursuit);
