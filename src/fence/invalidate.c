#include "fence/invalidate.h"

#include <stdlib.h>

#include "base/mem.h"
#include "fence/inode.h"
#include "fence/notify.h"

#define QUEUE_MAX 1024 /* beyond that requests are dropped: the same inodes will be queued again */

struct inval_request {
    struct inode *inode; /* owned reference */
    invalidated_fn fn;   /* NULL: nothing waits for it */
    void *cookie;
};

struct invalidator {
    struct fence *f;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running, stopping;
    struct inval_request *queue; /* guarded by lock */
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

/* If the base file has changed again meanwhile, the inode stays stale. */
void invalidate_now(struct fence *f, struct inode *inode)
{
    uint64_t base_stamp = atomic_load(&inode->base_stamp);

    notify_pages(f, inode);
    tree_lock(f);
    if (atomic_load(&inode->base_stamp) == base_stamp)
        inode_clear(inode, INODE_STALE);
    tree_unlock(f);
}

static void *invalidator_thread_main(void *arg)
{
    struct invalidator *in = arg;

    pthread_mutex_lock(&in->lock);
    while (in->count > 0 || !in->stopping) {
        if (in->count == 0) {
            pthread_cond_wait(&in->wake, &in->lock);
            continue;
        }
        struct inval_request request = in->queue[--in->count];
        pthread_mutex_unlock(&in->lock);
        invalidate_now(in->f, request.inode);
        if (request.fn)
            request.fn(request.cookie);
        inode_unref(in->f, request.inode);
        pthread_mutex_lock(&in->lock);
    }
    pthread_mutex_unlock(&in->lock);
    return NULL;
}

int invalidator_start(struct invalidator *in)
{
    int r = pthread_create(&in->thread, NULL, invalidator_thread_main, in);

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

static bool invalidator_enqueue(struct fence *f, struct inval_request request)
{
    struct invalidator *in = f->invalidator;
    bool queued = false;

    if (!in)
        return false;
    inode_dup(f, request.inode);
    pthread_mutex_lock(&in->lock);
    if (in->running && in->count < QUEUE_MAX) {
        vec_room(&in->queue, &in->cap, in->count);
        in->queue[in->count++] = request;
        queued = true;
        pthread_cond_signal(&in->wake);
    }
    pthread_mutex_unlock(&in->lock);
    if (!queued)
        inode_unref(f, request.inode);
    return queued;
}

void invalidate_soon(struct fence *f, struct inode *inode)
{
    invalidator_enqueue(f, (struct inval_request){ .inode = inode });
}

void invalidate_then(struct fence *f, struct inode *inode, invalidated_fn fn, void *cookie)
{
    if (!invalidator_enqueue(f, (struct inval_request){ inode, fn, cookie }))
        fn(cookie);
}
