
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fence/base_watch.h"
#include "fence/inode.h"
#include "fence/invalidate.h"
#include "fence/unwatched.h"

#define ROUNDS_MAX                                                                                                             \
    8 /* rounds in which a file is compared before its pages are dropped: what was read long ago should cost nothing */

struct poll_item {
    uint64_t node; /* it may have been forgotten since */
    int64_t due_ns;
    unsigned rounds;
};

struct unwatched_poll {
    struct fence *f;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running, stopping;
    struct poll_item *items; /* owned; guarded by lock; sorted by due_ns */
    size_t first, count, cap;
    int64_t no_watch_until_ns; /* used by the thread only */
};

struct unwatched_poll *unwatched_poll_new(struct fence *f)
{
    struct unwatched_poll *p = xnew(struct unwatched_poll);
    pthread_condattr_t attr;

    p->f = f;
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->wake, &attr);
    pthread_condattr_destroy(&attr);
    return p;
}

void unwatched_poll_free(struct unwatched_poll *p)
{
    if (!p)
        return;
    unwatched_poll_stop(p);
    free(p->items);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    free(p);
}

static void poll_add(struct unwatched_poll *p, uint64_t node, unsigned rounds)
{
    autolock(&p->lock);
    vec_room(&p->items, &p->cap, p->count);
    p->items[p->count++] = (struct poll_item){ node, clock_now_ns() + p->f->unwatched_round_ms * CLOCK_NS_PER_MS, rounds };
    if (p->count - p->first == 1)
        pthread_cond_signal(&p->wake);
}

void unwatched_poll_add(struct unwatched_poll *p, struct inode *inode)
{
    if (!(atomic_fetch_or(&inode->flags, INODE_POLLED) & INODE_POLLED))
        poll_add(p, inode->node, 0);
}

/* When the kernel refuses a watch, it is not asked for another for a while. */
static void try_watch(struct unwatched_poll *p, struct inode *dir)
{
    struct fence *f = p->f;
    int64_t now = clock_now_ns();
    int r;

    if (now < p->no_watch_until_ns || !inode_has(dir, INODE_UNWATCHED))
        return;
    r = base_watch_try_add(f, dir, NULL);
    if (r < 0 && r != -EREMOTE)
        p->no_watch_until_ns = now + f->unwatched_round_ms * CLOCK_NS_PER_MS / 2;
    if (r < 0)
        return;
    /* Changes before the watch existed caused no event: the directory remains unwatched until they are looked for. */
    pthread_rwlock_rdlock(&f->gate);
    unwatched_check_all(f, dir);
    pthread_rwlock_unlock(&f->gate);
    unwatched_remove(f, dir);
}

/* INODE_POLLED ends before the kernel is notified: what it caches from then on is new. */
static void poll_dir(struct unwatched_poll *p, struct inode *dir)
{
    inode_clear(dir, INODE_POLLED);
    if (inode_has(dir, INODE_DEAD))
        return;
    try_watch(p, dir);
    notify_listing(p->f, dir);
}

static void poll_file(struct unwatched_poll *p, struct inode *inode, unsigned rounds)
{
    struct fence *f = p->f;

    pthread_rwlock_rdlock(&f->gate);
    unwatched_check(f, inode);
    bool is_within = unwatched_is_within(f, inode);
    if (is_within)
        unwatched_recheck(f, inode);
    pthread_rwlock_unlock(&f->gate);
    if (inode_has(inode, INODE_STALE))
        rounds = 0;
    if (rounds < ROUNDS_MAX && is_within) {
        if (inode_has(inode, INODE_STALE))
            invalidate_now(f, inode);
        poll_add(p, inode->node, rounds + 1);
        return;
    }
    inode_clear(inode, INODE_POLLED);
    invalidate_now(f, inode);
}

static void poll_inode(struct unwatched_poll *p, const struct poll_item *item)
{
    struct inode *inode = inode_ref_by_node(p->f, item->node);

    if (!inode)
        return;
    if (!inode_has(inode, INODE_POLLED))
        ; /* another inode with the same node id */
    else if (inode_is_dir(inode))
        poll_dir(p, inode);
    else
        poll_file(p, inode, item->rounds);
    inode_unref(p->f, inode);
}

/* [lock] Sleeps until an item is due and returns it. False: stopping. */
static bool wait_for_item(struct unwatched_poll *p, struct poll_item *ret_item)
{
    while (!p->stopping) {
        if (p->first == p->count) {
            p->first = p->count = 0;
            pthread_cond_wait(&p->wake, &p->lock);
            continue;
        }
        *ret_item = p->items[p->first];
        if (ret_item->due_ns <= clock_now_ns()) {
            p->first++;
            if (p->first >= 1024 && p->first >= p->count / 2) {
                memmove(p->items, p->items + p->first, (p->count - p->first) * sizeof(*p->items));
                p->count -= p->first;
                p->first = 0;
            }
            return true;
        }
        struct timespec until = clock_timespec_of_ns(ret_item->due_ns);
        pthread_cond_timedwait(&p->wake, &p->lock, &until);
    }
    return false;
}

static void *poll_thread_main(void *arg)
{
    struct unwatched_poll *p = arg;
    struct poll_item item;

    pthread_mutex_lock(&p->lock);
    while (wait_for_item(p, &item)) {
        pthread_mutex_unlock(&p->lock);
        poll_inode(p, &item);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

int unwatched_poll_start(struct unwatched_poll *p)
{
    int r = pthread_create(&p->thread, NULL, poll_thread_main, p);

    p->running = r == 0;
    return -r;
}

void unwatched_poll_stop(struct unwatched_poll *p)
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
