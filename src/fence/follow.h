/*
 * Serving a client on its own CPU.
 *
 * One follow is shared by the workers of a session; each of them brings a pursuit. Where the process may not use what it takes
 * (see follow.c), all of this does nothing.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct follow {
    bool is_possible;
    int cpus;
    _Atomic int64_t look_after_ns; /* when to see again whether the machine is calm */
    _Atomic int aside;             /* thread that stands back for its client; 0: none */
    _Atomic int64_t rest_until_ns; /* not before: it did not pay */
    _Atomic int64_t rest_ns;
};

struct pursuit {
    int thread;      /* gettid() of the worker */
    uint32_t pid;    /* who asked last */
    unsigned run;    /* how many requests in a row were its, one soon after the other */
    unsigned misses; /* how many of the last ones were not there yet when we looked: it runs elsewhere */
    unsigned hits;
    int64_t last_ns, hop_after_ns, hop_wait_ns;
};

void follow_init(struct follow *follow);

/* A request of `pid` was read; `was_waiting`: it was there when we looked. May move the calling thread to the client's CPU. */
void follow_request(struct follow *follow, struct pursuit *pursuit, uint32_t pid, bool was_waiting, int64_t now_ns);

/* Writes the answer such that the client goes on where the calling thread is. Someone else must be there who calls
 * follow_rescue() when this takes long. */
ssize_t follow_writev(struct follow *follow, struct pursuit *pursuit, int fd, const struct iovec *iov, int count);

/* Whoever stands back competes for its CPU again. */
void follow_rescue(struct follow *follow);
