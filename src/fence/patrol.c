#include "fence/patrol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fence/blind.h"
#include "fence/inode.h"
#include "fence/invalidate.h"
#include "fence/live.h"
#include "fence/notify.h"

#define ROUNDS_MOST 8 /* of comparing a file before its pages are dropped: what was read long ago should cost nothing */

struct charge {
    uint64_t node; /* it may have been forgotten since */
    int64_t due_ns;
    unsigned rounds;
};

struct patrol {
    struct fence *f;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running, stopping;
    struct charge *charges; /* owned; guarded by lock; in the order in which they are due */
    size_t first, count, cap;
    int64_t no_watch_until_ns; /* the thread's own */
};

struct patrol *patrol_new(struct fence *f)
{
    struct patrol *p = xnew(struct patrol);
    pthread_condattr_t attr;

    p->f = f;
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->wake, &attr);
    pthread_condattr_destroy(&attr);
    return p;
}

void patrol_free(struct patrol *p)
{
    if (!p)
        return;
    patrol_stop(p);
    free(p->charges);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    free(p);
}

static void add(struct patrol *p, uint64_t node, unsigned rounds)
{
    autolock(&p->lock);
    vec_room(&p->charges, &p->cap, p->count);
    p->charges[p->count++] = (struct charge){ node, clock_now_ns() + p->f->blind_round_ms * CLOCK_NS_PER_MS, rounds };
    if (p->count - p->first == 1)
        pthread_cond_signal(&p->wake);
}

void patrol_charge(struct patrol *p, struct inode *inode)
{
    if (!(atomic_fetch_or(&inode->flags, INODE_PATROLLED) & INODE_PATROLLED))
        add(p, inode->node, 0);
}

/* The kernel grants watches one by one: when it refuses one, it is not asked again for a while. */
static void try_watch(struct patrol *p, struct inode *dir)
{
    struct fence *f = p->f;
    int64_t now = clock_now_ns();
    int r;

    if (now < p->no_watch_until_ns || !inode_has(dir, INODE_BLIND))
        return;
    r = live_try_watch(f, dir, NULL);
    if (r < 0 && r != -EREMOTE)
        p->no_watch_until_ns = now + f->blind_round_ms * CLOCK_NS_PER_MS / 2;
    if (r < 0)
        return;
    /* What changed before the watch was there is told by nobody: it is still blind while that is looked for. */
    pthread_rwlock_rdlock(&f->gate);
    blind_check_all(f, dir);
    pthread_rwlock_unlock(&f->gate);
    blind_remove(f, dir);
}

/* The charge ends before the kernel is told: what it gets from then on is a new one. */
static void visit_dir(struct patrol *p, struct inode *dir)
{
    inode_clear(dir, INODE_PATROLLED);
    if (inode_has(dir, INODE_DEAD))
        return;
    try_watch(p, dir);
    notify_listing(p->f, dir);
}

static void visit_file(struct patrol *p, struct inode *inode, unsigned rounds)
{
    struct fence *f = p->f;

    pthread_rwlock_rdlock(&f->gate);
    blind_check(f, inode);
    bool is_within = blind_is_within(f, inode);
    if (is_within)
        blind_settle(f, inode);
    pthread_rwlock_unlock(&f->gate);
    if (inode_has(inode, INODE_STALE))
        rounds = 0;
    if (rounds < ROUNDS_MOST && is_within) {
        if (inode_has(inode, INODE_STALE))
            invalidate_now(f, inode);
        add(p, inode->node, rounds + 1);
        return;
    }
    inode_clear(inode, INODE_PATROLLED);
    invalidate_now(f, inode);
}

static void visit(struct patrol *p, const struct charge *charge)
{
    struct inode *inode = inode_ref_by_node(p->f, charge->node);

    if (!inode)
        return;
    if (!inode_has(inode, INODE_PATROLLED))
        ; /* another one of the same number */
    else if (inode_is_dir(inode))
        visit_dir(p, inode);
    else
        visit_file(p, inode, charge->rounds);
    inode_unref(p->f, inode);
}

/* [lock] Those that were taken make room. */
static void compact(struct patrol *p)
{
    if (p->first < 1024 || p->first < p->count / 2)
        return;
    memmove(p->charges, p->charges + p->first, (p->count - p->first) * sizeof(*p->charges));
    p->count -= p->first;
    p->first = 0;
}

/* [lock] The next that is due; sleeps until one is. False: stopping. */
static bool wait_for_charge(struct patrol *p, struct charge *ret_charge)
{
    while (!p->stopping) {
        if (p->first == p->count) {
            p->first = p->count = 0;
            pthread_cond_wait(&p->wake, &p->lock);
            continue;
        }
        *ret_charge = p->charges[p->first];
        if (ret_charge->due_ns <= clock_now_ns()) {
            p->first++;
            compact(p);
            return true;
        }
        struct timespec until = clock_timespec_of_ns(ret_charge->due_ns);
        pthread_cond_timedwait(&p->wake, &p->lock, &until);
    }
    return false;
}

static void *run(void *arg)
{
    struct patrol *p = arg;
    struct charge charge;

    pthread_mutex_lock(&p->lock);
    while (wait_for_charge(p, &charge)) {
        pthread_mutex_unlock(&p->lock);
        visit(p, &charge);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

int patrol_start(struct patrol *p)
{
    int r = pthread_create(&p->thread, NULL, run, p);

    p->running = r == 0;
    return -r;
}

void patrol_stop(struct patrol *p)
{
    if (!p || !p->running)
        return;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    p->running = false;
}
