#include "fence/handle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "fence/casefold.h"
#include "fence/layer.h"

#define HANDLES_MIN 64
#define HANDLES_MAX 4096

/* Half of the descriptors that the process may open: the rest is for operations under way and for other purposes. */
void handles_init(struct handles *handles)
{
    struct rlimit limit;

    pthread_mutex_init(&handles->lock, NULL);
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        limit.rlim_cur = 1024;
    handles->limit = limit.rlim_cur / 2 < HANDLES_MAX ? limit.rlim_cur / 2 : HANDLES_MAX;
    if (handles->limit < HANDLES_MIN)
        handles->limit = HANDLES_MIN;
}

void handles_done(struct handles *handles)
{
    pthread_mutex_destroy(&handles->lock);
}

static void list_remove(struct handles *hs, struct handle *h)
{
    *(h->newer ? &h->newer->older : &hs->newest) = h->older;
    *(h->older ? &h->older->newer : &hs->oldest) = h->newer;
    h->newer = h->older = NULL;
}

static void list_add(struct handles *hs, struct handle *h)
{
    h->older = hs->newest;
    *(hs->newest ? &hs->newest->newer : &hs->oldest) = h;
    hs->newest = h;
}

/* Detaches it from its inode. Returns true if nothing else uses it: the caller frees it after unlocking. */
static bool handle_detach(struct handles *hs, struct handle *h)
{
    if (h->inode) {
        h->inode->handles[h->layer] = NULL;
        h->inode = NULL;
        hs->count--;
        if (h->pinned)
            hs->pinned--;
        else
            list_remove(hs, h);
    }
    return h->refs == 0;
}

static void handle_free(struct handle *h)
{
    close(h->fd);
    casefold_free(h->casefold);
    free(h);
}

/* Detaches up to `most` unused handles, oldest first, linked by `older`. */
static struct handle *take_unused(struct handles *hs, size_t most)
{
    struct handle *taken = NULL;

    for (struct handle *h = hs->oldest, *newer; h && most > 0; h = newer) {
        newer = h->newer;
        if (h->refs > 0)
            continue;
        handle_detach(hs, h);
        h->older = taken;
        taken = h;
        most--;
    }
    return taken;
}

static void free_chain(struct handle *chain)
{
    while (chain) {
        struct handle *next = chain->older;
        handle_free(chain);
        chain = next;
    }
}

static struct handle *handle_find_cached(struct handles *hs, struct inode *inode, enum layer_kind layer)
{
    struct handle *h = inode->handles[layer];

    if (!h)
        return NULL;
    h->refs++;
    if (!h->pinned && hs->newest != h) {
        list_remove(hs, h);
        list_add(hs, h);
    }
    return h;
}

struct handle *handle_take(struct fence *f, struct inode *inode, enum layer_kind layer, int take_fd)
{
    struct handles *hs = &f->handles;
    struct handle *h, *unused = NULL;

    pthread_mutex_lock(&hs->lock);
    h = handle_find_cached(hs, inode, layer);
    if (!h) {
        h = xnew(struct handle);
        h->fd = take_fd;
        h->layer = (uint8_t) layer;
        h->inode = inode;
        h->refs = 1;
        inode->handles[layer] = h;
        list_add(hs, h);
        take_fd = -1;
        if (++hs->count > hs->limit)
            unused = take_unused(hs, 16);
    }
    pthread_mutex_unlock(&hs->lock);
    free_chain(unused);
    if (take_fd >= 0)
        close(take_fd);
    return h;
}

struct handle *handle_get_cached(struct fence *f, struct inode *inode, enum layer_kind layer)
{
    autolock(&f->handles.lock);
    return handle_find_cached(&f->handles, inode, layer);
}

int handle_get(struct fence *f, struct inode *inode, enum layer_kind layer, struct handle **ret_handle)
{
    struct handle *h = handle_get_cached(f, inode, layer);

    if (!h) {
        int fd = layer_open(f, inode, layer);
        if (fd == -EMFILE || fd == -ENFILE) {
            handles_trim(f);
            fd = layer_open(f, inode, layer);
        }
        if (fd < 0)
            return fd;
        h = handle_take(f, inode, layer, fd);
    }
    *ret_handle = h;
    return 0;
}

void handle_put(struct fence *f, struct handle *h)
{
    if (!h)
        return;
    pthread_mutex_lock(&f->handles.lock);
    bool last = --h->refs == 0 && !h->inode;
    pthread_mutex_unlock(&f->handles.lock);
    if (last)
        handle_free(h);
}

bool handle_pin(struct fence *f, struct inode *inode, enum layer_kind layer)
{
    struct handles *hs = &f->handles;

    pthread_mutex_lock(&hs->lock);
    struct handle *h = inode->handles[layer];
    if (h && !h->pinned) {
        list_remove(hs, h);
        h->pinned = true;
        hs->pinned++;
    }
    pthread_mutex_unlock(&hs->lock);
    return h != NULL;
}

void handle_evict(struct fence *f, struct inode *inode, enum layer_kind layer)
{
    pthread_mutex_lock(&f->handles.lock);
    struct handle *h = inode->handles[layer];
    bool last = h && handle_detach(&f->handles, h);
    pthread_mutex_unlock(&f->handles.lock);
    if (last)
        handle_free(h);
}

void handle_evict_all(struct fence *f, struct inode *inode)
{
    for (enum layer_kind layer = LAYER_BASE; layer < LAYERS; layer++)
        handle_evict(f, inode, layer);
}

void handle_reopen(struct fence *f, struct inode *inode, enum layer_kind layer)
{
    struct handle *old = handle_get_cached(f, inode, layer), *new;
    int fd;

    if (!old)
        return;
    handle_evict(f, inode, layer);
    fd = layer_open(f, inode, layer);
    if (fd >= 0) {
        new = handle_take(f, inode, layer, fd);
        handle_put(f, new);
    }
    handle_put(f, old);
}

void handles_trim(struct fence *f)
{
    pthread_mutex_lock(&f->handles.lock);
    struct handle *unused = take_unused(&f->handles, SIZE_MAX);
    pthread_mutex_unlock(&f->handles.lock);
    free_chain(unused);
}
