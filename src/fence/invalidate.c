#include "fence/invalidate.h"

#include <stdlib.h>

#include "base/mem.h"
#include "fence/inode.h"
#include "fence/notify.h"

#define QUEUE_MOST 1024 /* beyond that the oldest wait is over soon anyway: the same inode would be queued again */

struct errand {
    struct inode *inode; /* owned reference */
    invalidated_fn fn;   /* NULL: nobody waits */
    void *cookie;
};

struct invalidator {
    struct fence *f;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running, stopping;
    struct errand *queue; /* guarded by lock */
    size_t count, cap;
};

struct invalidator *invalidator_new(struct fence *f)
{
    struct invalidator *in = xnew(struct invalidator);

    in->f = f;
    pthread_mutex_init(&in->lock, NULL);
    pthread_cond_init(&in->wake, NULL);
    return in;
}

/* What was seen may be another again meanwhile: then it stays stale. */
void invalidate_now(struct fence *f, struct inode *inode)
{
    uint64_t seen = atomic_load(&inode->seen);

    notify_pages(f, inode);
    tree_lock(f);
    if (atomic_load(&inode->seen) == seen)
        inode_clear(inode, INODE_STALE);
    tree_unlock(f);
}

static void *run(void *arg)
{
    struct invalidator *in = arg;

    pthread_mutex_lock(&in->lock);
    while (in->count > 0 || !in->stopping) {
        if (in->count == 0) {
            pthread_cond_wait(&in->wake, &in->lock);
            continue;
        }
        struct errand errand = in->queue[--in->count];
        pthread_mutex_unlock(&in->lock);
        invalidate_now(in->f, errand.inode);
        if (errand.fn)
            errand.fn(errand.cookie);
        inode_unref(in->f, errand.inode);
        pthread_mutex_lock(&in->lock);
    }
    pthread_mutex_unlock(&in->lock);
    return NULL;
}

int invalidator_start(struct invalidator *in)
{
    int r = pthread_create(&in->thread, NULL, run, in);

    in->running = r == 0;
    return -r;
}

void invalidator_stop(struct invalidator *in)
{
    if (!in || !in->running)
        return;
    pthread_mutex_lock(&in->lock);
    in->stopping = true;
    pthread_cond_signal(&in->wake);
    pthread_mutex_unlock(&in->lock);
    pthread_join(in->thread, NULL);
    in->running = false;
}

void invalidator_free(struct invalidator *in)
{
    if (!in)
        return;
    invalidator_stop(in);
    for (size_t i = 0; i < in->count; i++)
        inode_unref(in->f, in->queue[i].inode);
    free(in->queue);
    pthread_mutex_destroy(&in->lock);
    pthread_cond_destroy(&in->wake);
    free(in);
}

static bool enqueue(struct fence *f, struct errand errand)
{
    struct invalidator *in = f->invalidator;
    bool queued = false;

    if (!in)
        return false;
    tree_lock(f);
    inode_ref(errand.inode);
    tree_unlock(f);
    pthread_mutex_lock(&in->lock);
    if (in->running && in->count < QUEUE_MOST) {
        vec_room(&in->queue, &in->cap, in->count);
        in->queue[in->count++] = errand;
        queued = true;
        pthread_cond_signal(&in->wake);
    }
    pthread_mutex_unlock(&in->lock);
    if (!queued)
        inode_unref(f, errand.inode);
    return queued;
}

void invalidate_soon(struct fence *f, struct inode *inode)
{
    enqueue(f, (struct errand){ .inode = inode });
}

void invalidate_then(struct fence *f, struct inode *inode, invalidated_fn fn, void *cookie)
{
    if (!enqueue(f, (struct errand){ inode, fn, cookie }))
        fn(cookie);
}
