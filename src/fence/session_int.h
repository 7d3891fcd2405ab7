/* The conversation with the kernel in pieces: what the files of session.h share. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "fence/cpu_follow.h"
#include "fence/session.h"

#define SESSION_BUFFER_BYTES ((1 << 20) + 4096) /* a write of the largest size and its headers */
#define SESSION_ACTIVE_NS CLOCK_NS_PER_SEC      /* as long after a request the leader is watched */

/*
 * Who reads.
 *
 * One worker, the leader, reads requests; the others wait for their turn. A short request the leader serves itself and goes
 * on reading: a single client then talks to a single thread whose caches are warm, and nobody else is woken. Waking an idle CPU
 * is what makes a round trip slow, so after a reply the leader looks for the next request for SPIN_NS before it sleeps, as
 * long as that pays (see spin_pays), and is on the CPU of a client that asks one thing after the other (see cpu_follow.c).
 *
 * Leadership is passed on in three cases: before a request that takes long (copying, syncing, moving); when several times in a
 * row a request of another process was waiting already, that is, when several clients ask at once; and when the leader is stuck
 * in a short one for STUCK_NS, or stands back and is kept from running, which a waiting worker notices and takes the lead. A worker
 * that finds it is no leader any more lines up. One whose request has to wait for what another worker does (session_begin_wait)
 * does not lead, and does not count among those who may be at work.
 *
 *     waiting --take_lead()--> leading --pass_lead()--> serving --> waiting
 *
 * `term` counts leaders; whoever's number is not the current one does not lead. With nothing to do the leader sleeps in poll()
 * and one other on a condition, the rest have gone home: no CPU is used.
 */
struct session {
    struct fence *f;
    struct fuse_session *fuse;
    int fd;      /* owned: the device, non-blocking */
    int stop_fd; /* owned: an eventfd */
    unsigned workers_max;
    bool can_spin;
    bool passes_all;      /* a test: every request beside the others, whatever the machine */
    uint32_t slow_opcode; /* a test: a worker is away for a while between reading such a request and serving it; 0: none */
    int serving_max;      /* workers for a crowd: half of the CPUs, the clients need theirs */
    _Atomic int serving;  /* workers busy beside the leader */
    uint32_t offered2;    /* the kernel's flags2 */
    bool has_passthrough;
    _Atomic bool stopping;
    _Atomic bool is_lost; /* someone else unmounted us */
    _Atomic uint64_t requests;
    _Atomic uint64_t init_unique;
    struct cpu_follow cpu_follow;
    _Atomic int forgets_pending; /* workers who read, or have read a FORGET and are not done with it */
    _Atomic int writing_back;    /* workers who have read a page that is written back, and are not done with it */
    _Atomic uint64_t background; /* requests read that the kernel may have sent without anybody waiting */

    pthread_mutex_t lock;
    pthread_cond_t turn;
    pthread_cond_t gone; /* a worker ended */
    bool has_leader;     /* guarded by lock, as these */
    bool has_watcher;    /* one of the waiting looks after the leader */
    unsigned count, waiting;
    unsigned waiting_aside; /* of `count`: see session_begin_wait() */
    _Atomic uint64_t term;
    _Atomic int64_t busy_since_ns; /* of the leader; 0: it reads, or waits for something to read */
    _Atomic int64_t last_ns;       /* when a request came */
};

struct worker {
    struct session *s;
    char *bytes; /* owned */
    uint64_t term;
    bool was_waiting; /* the request was there before we looked */
    unsigned burst;   /* how many in a row were, and from another process than the one before */
    uint32_t last_pid;
    unsigned spins, hits; /* how often looking for a request would have paid, of how many times */
    unsigned yields;      /* how often it gave way until it met the request; 0: it was not looking for it */
    int64_t replied_ns;   /* when it was done with the one before */
    struct client_affinity affinity;
};

extern __thread struct worker *session_self; /* borrowed; NULL in threads that are none */

static inline bool session_still_leads(const struct worker *w)
{
    return atomic_load(&w->s->term) == w->term;
}

/* ---- session_leader.c ---- */

/* Waits until it is this worker's turn. False: time to end. */
bool session_take_lead(struct worker *worker);
void session_pass_lead(struct worker *worker);

/* One more, if there may be. Called with the lock held. */
void session_add_worker(struct session *session);

/* ---- session.c ---- */

/* A worker's thread. */
void *session_work(void *session);
