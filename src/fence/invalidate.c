#include "fence/invalidate.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/mem.h"
#include "fence/inode.h"
#include "fence/merge.h"
#include "fence/reply.h"
#include "fence/session.h"

#define QUEUE_MAX 1024 /* beyond that requests are dropped: the same inodes will be queued again */

/* ---- notifications ---- */

static int notify_write(struct fence *f, int32_t code, struct iovec *parts, int count)
{
    struct fuse_out_header head = { .len = sizeof(head), .error = code };
    struct iovec iov[4] = { { &head, sizeof(head) } };

    for (int i = 0; i < count; i++) {
        iov[i + 1] = parts[i];
        head.len += (uint32_t) parts[i].iov_len;
    }
    return writev(session_device(f->session), iov, count + 1) < 0 ? -errno : 0;
}

int notify_entry(struct fence *f, struct inode *dir, const char *name, bool only_expire)
{
    struct fuse_notify_inval_entry_out out = {
        .parent = reply_node_of(f, dir),
        .namelen = (uint32_t) strlen(name),
        .flags = only_expire ? FUSE_EXPIRE_ONLY : 0,
    };

    return notify_write(f, FUSE_NOTIFY_INVAL_ENTRY,
                        (struct iovec[]){ { &out, sizeof(out) }, { (void *) (uintptr_t) name, out.namelen + 1 } }, 2);
}

int notify_pages(struct fence *f, struct inode *inode)
{
    struct fuse_notify_inval_inode_out out = { .ino = reply_node_of(f, inode) };

    return notify_write(f, FUSE_NOTIFY_INVAL_INODE, &(struct iovec){ &out, sizeof(out) }, 1);
}

/* The kernel holds a directory's lock shared while it lists it and caches the answer, and takes it exclusively to drop a name.
 * So dropping "." , which no directory contains, waits for answers under way. */
int notify_listing(struct fence *f, struct inode *dir)
{
    notify_entry(f, dir, ".", true);
    return notify_pages(f, dir);
}

/* The kernel looks up every cached name again at its next use, negative ones too. It drops nothing, so a process in a directory
 * stays there. */
int notify_all_names(struct fence *f)
{
    enum { NOTIFY_INC_EPOCH = 8 };

    return notify_write(f, NOTIFY_INC_EPOCH, NULL, 0);
}

/* ---- batches ---- */

void inval_batch_add_name(struct fence *f, struct inval_batch *batch, struct inode *dir, const char *name, bool only_expires)
{
    vec_room(&batch->names, &batch->name_cap, batch->name_count);
    batch->names[batch->name_count++] = (struct inval_name){ inode_dup(f, dir), xdup(name), only_expires };
}

void inval_batch_add_pages(struct fence *f, struct inval_batch *batch, struct inode *inode)
{
    autolock(&f->names);
    inode_list_add(&batch->inodes, inode);
}

/* Consecutive names of one directory need only one entry. */
void inval_batch_add_listing(struct fence *f, struct inval_batch *batch, struct inode *dir)
{
    autolock(&f->names);
    if (batch->dirs.count == 0 || batch->dirs.items[batch->dirs.count - 1] != dir)
        inode_list_add(&batch->dirs, dir);
}

/* Before Linux 6.16 names cannot be expired all at once. We do not know which absent names are cached; existing ones we do. */
static void expire_listed_names(struct fence *f, struct inode *dir)
{
    struct dir_listing *listing;
    int r;

    pthread_rwlock_rdlock(&f->gate);
    r = merge_list(f, dir, false, &listing);
    pthread_rwlock_unlock(&f->gate);
    if (r < 0)
        return;
    for (size_t i = 0; i < listing->count; i++)
        notify_entry(f, dir, listing->items[i].name, true);
    dir_listing_unref(listing);
}

static void inval_batch_discard(struct fence *f, struct inval_batch *batch)
{
    for (size_t i = 0; i < batch->name_count; i++) {
        inode_unref(f, batch->names[i].dir);
        free(batch->names[i].name);
    }
    inode_list_done(f, &batch->inodes);
    inode_list_done(f, &batch->dirs);
    free(batch->names);
    *batch = INVAL_BATCH_NONE;
}

/* Names first, because a name decides which inode is reached; last what waits for clients. */
void inval_batch_send(struct fence *f, struct inval_batch *batch, bool and_waits)
{
    if (batch->is_wide && notify_all_names(f) < 0) {
        for (size_t i = 0; i < batch->dirs.count; i++)
            expire_listed_names(f, batch->dirs.items[i]);
    }
    for (size_t i = 0; i < batch->name_count; i++)
        notify_entry(f, batch->names[i].dir, batch->names[i].name, batch->names[i].only_expires);
    for (size_t i = 0; i < batch->inodes.count; i++)
        notify_pages(f, batch->inodes.items[i]);
    for (size_t i = 0; i < batch->dirs.count; i++) {
        if (and_waits)
            notify_listing(f, batch->dirs.items[i]);
        else
            notify_pages(f, batch->dirs.items[i]);
    }
    inval_batch_discard(f, batch);
}

void inval_batch_send_if_mounted(struct fence *f, struct inval_batch *batch)
{
    if (f->session && f->mount_point)
        inval_batch_send(f, batch, true);
    else
        inval_batch_discard(f, batch);
}

/* ---- the thread ---- */

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
