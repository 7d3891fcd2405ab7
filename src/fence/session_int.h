/* The inside of a session, for the files of session.h. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "fence/cpu_follow.h"
#include "fence/session.h"

#define SESSION_BUFFER_BYTES ((1 << 20) + 4096) /* the largest write and its headers */
#define SESSION_ACTIVE_NS CLOCK_NS_PER_SEC      /* how long after a request a worker watches the leader */

/*
 * Who reads.
 *
 * One worker, the leader, reads requests; the others wait for their turn. The leader serves a short request itself and goes on
 * reading. So a single client talks to a single thread with warm caches, and no other thread is woken. Waking an idle CPU is
 * what makes a round trip slow, so after a reply the leader polls for the next request for SPIN_NS before it sleeps, as long as
 * that pays (see spin_pays), and it stays on the CPU of a client that sends one request after the other (see cpu_follow.c).
 *
 * The leader passes the lead on in three cases: before a request that takes long (copying, syncing, moving); when a request of
 * another process was already waiting several times in a row, that is, when several clients send at once; and when it is stuck
 * in a short request for STUCK_NS, or is kept from running while SCHED_IDLE, which a waiting worker notices. A worker that
 * finds that it no longer leads joins the waiting ones. A worker whose request waits for another worker (session_begin_wait)
 * does not lead and does not count among those that may be at work.
 *
 *     waiting --take_lead()--> leading --pass_lead()--> serving --> waiting
 *
 * `term` counts leaders; a worker leads if its own number is the current one. Without requests the leader sleeps in poll() and
 * one other worker on a condition. The rest have ended, so no CPU is used.
 */
struct session {
    struct fence *f;
    struct fuse_session *fuse;
    int fd;      /* owned; the device, non-blocking */
    int stop_fd; /* owned; an eventfd */
    unsigned workers_max;
    bool can_spin;
    bool passes_all;      /* for tests: every request is served beside the others, whatever the machine */
    uint32_t slow_opcode; /* for tests: a worker pauses between reading and serving requests of this kind; 0: none */
    int serving_max;      /* the most workers that serve many clients: half of the CPUs, as clients need the rest */
    _Atomic int serving;  /* workers busy beside the leader */
    uint32_t offered2;    /* the kernel's flags2 */
    bool has_passthrough;
    _Atomic bool stopping;
    _Atomic bool is_lost; /* unmounted from outside */
    _Atomic uint64_t requests;
    _Atomic uint64_t init_unique;
    struct cpu_follow cpu_follow;
    _Atomic int forgets_pending; /* workers that read a request, or have read a FORGET and not finished it */
    _Atomic int writing_back;    /* workers that have read a page to write back and not finished it */
    _Atomic uint64_t background; /* requests read for which the kernel may let no process wait */

    pthread_mutex_t lock;
    pthread_cond_t turn;
    pthread_cond_t gone; /* signalled when a worker ends */
    bool has_leader;     /* guarded by lock, as are the next four */
    bool has_watcher;    /* one waiting worker watches the leader */
    unsigned count, waiting;
    unsigned waiting_aside; /* of `count`: workers in session_begin_wait() */
    _Atomic uint64_t term;
    _Atomic int64_t busy_since_ns; /* when the leader began a request; 0: it reads or waits */
    _Atomic int64_t last_ns;       /* time of the last request */
};

struct worker {
    struct session *s;
    char *bytes; /* owned */
    uint64_t term;
    bool was_waiting; /* the last request was there at the first read */
    unsigned burst;   /* how many in a row were, each from another process than the one before */
    uint32_t last_pid;
    unsigned spins, hits; /* how often polling would have met a request, of how many times */
    unsigned yields;      /* how often it yielded before the request came; 0: it did not poll */
    int64_t replied_ns;   /* when it finished the last request */
    struct client_affinity affinity;
};

extern __thread struct worker *session_self; /* borrowed; NULL in threads that are no workers */

static inline bool session_still_leads(const struct worker *w)
{
    return atomic_load(&w->s->term) == w->term;
}

/* ---- session_leader.c ---- */

/* Waits until it is this worker's turn. Returns false if the worker shall end. */
bool session_take_lead(struct worker *worker);
void session_pass_lead(struct worker *worker);

/* Starts one more worker if the limit allows. [lock] */
void session_add_worker(struct session *session);

/* ---- session.c ---- */

/* The main function of a worker's thread. */
void *session_work(void *session);
