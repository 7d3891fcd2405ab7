#include "fence/invalidate.h"

#include <stdlib.h>

#include "base/mem.h"
#include "fence/inode.h"
#include "fence/notify.h"

#define QUEUE_MOST 1024 /* beyond that the oldest wait is over soon anyway: the same inode would be queued again */

struct invalidator {
    struct fence *f;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running, stopping;
    struct inode **queue; /* owned references; guarded by lock */
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

static void *run(void *arg)
{
    struct invalidator *in = arg;

    pthread_mutex_lock(&in->lock);
    while (in->count > 0 || !in->stopping) {
        if (in->count == 0) {
            pthread_cond_wait(&in->wake, &in->lock);
            continue;
        }
        struct inode *inode = in->queue[--in->count];
        pthread_mutex_unlock(&in->lock);
        notify_pages(in->f, inode);
        inode_unref(in->f, inode);
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
        inode_unref(in->f, in->queue[i]);
    free(in->queue);
    pthread_mutex_destroy(&in->lock);
    pthread_cond_destroy(&in->wake);
    free(in);
}

void invalidate_soon(struct fence *f, struct inode *inode)
{
    struct invalidator *in = f->invalidator;
    bool queued = false;

    if (!in)
        return;
    tree_lock(f);
    inode_ref(inode);
    tree_unlock(f);
    pthread_mutex_lock(&in->lock);
    if (in->running && in->count < QUEUE_MOST) {
        vec_room(&in->queue, &in->cap, in->count);
        in->queue[in->count++] = inode;
        queued = true;
        pthread_cond_signal(&in->wake);
    }
    pthread_mutex_unlock(&in->lock);
    if (!queued)
        inode_unref(f, inode);
}
