#include "fence/passthrough.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "fence/handle.h"
#include "fence/inode.h"

/* From <linux/fuse.h> of 6.9; the headers that we build with may be older. */
struct backing_map {
    int32_t fd;
    uint32_t flags;
    uint64_t padding;
};

#define BACKING_OPEN _IOW(229, 1, struct backing_map)
#define BACKING_CLOSE _IOW(229, 2, uint32_t)

/* An open inode. */
struct opened_inode {
    uint64_t node; /* 0: free slot */
    uint32_t count;
    int backing_id; /* 0: through our page cache */
};

struct passthrough {
    int device; /* borrowed from the session */
    pthread_mutex_t lock;
    struct opened_inode *items; /* owned; guarded by lock; open addressing */
    size_t count, cap;
};

static int backing_open(int device, int fd)
{
    struct backing_map map = { .fd = fd };
    int id = ioctl(device, BACKING_OPEN, &map);

    return id < 0 ? -errno : id;
}

static void backing_close(int device, int id)
{
    uint32_t number = (uint32_t) id;

    if (id > 0)
        ioctl(device, BACKING_CLOSE, &number);
}

/* Tries it on a file of ours, to find out before the first client does. */
int passthrough_new(struct fence *f, int device, struct passthrough **ret_passthrough)
{
    autofd int probe = openat(f->meta_fd, "format", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int id = probe < 0 ? -errno : backing_open(device, probe);

    if (id < 0)
        return id == -ENOTTY ? -EOPNOTSUPP : id;
    backing_close(device, id);
    *ret_passthrough = xnew(struct passthrough);
    (*ret_passthrough)->device = device;
    pthread_mutex_init(&(*ret_passthrough)->lock, NULL);
    return 0;
}

void passthrough_free(struct passthrough *p)
{
    if (!p)
        return;
    pthread_mutex_destroy(&p->lock);
    free(p->items);
    free(p);
}

static size_t home_of(const struct passthrough *p, uint64_t node)
{
    return (node * 0x9e3779b97f4a7c15ULL >> 32) & (p->cap - 1);
}

static struct opened_inode *slot_of(struct passthrough *p, uint64_t node)
{
    size_t i = home_of(p, node);

    while (p->items[i].node && p->items[i].node != node)
        i = (i + 1) & (p->cap - 1);
    return &p->items[i];
}

static struct opened_inode *opened_add(struct passthrough *p, uint64_t node, int backing_id)
{
    if (p->count * 2 >= p->cap) {
        struct passthrough old = *p;
        p->cap = old.cap ? old.cap * 2 : 16;
        p->items = xalloc(p->cap * sizeof(*p->items));
        for (size_t i = 0; i < old.cap; i++) {
            if (old.items[i].node)
                *slot_of(p, old.items[i].node) = old.items[i];
        }
        free(old.items);
    }
    struct opened_inode *o = slot_of(p, node);
    p->count++;
    *o = (struct opened_inode){ .node = node, .backing_id = backing_id };
    return o;
}

static void opened_remove(struct passthrough *p, struct opened_inode *o)
{
    size_t mask = p->cap - 1, gap = (size_t) (o - p->items);

    for (size_t i = (gap + 1) & mask; p->items[i].node; i = (i + 1) & mask) {
        size_t home = home_of(p, p->items[i].node);
        if (((i - home) & mask) >= ((i - gap) & mask)) {
            p->items[gap] = p->items[i];
            gap = i;
        }
    }
    p->items[gap] = (struct opened_inode){ 0 };
    p->count--;
}

/* Files that may be written stay with us: their writes would bypass the quota and the change log. */
static bool is_eligible(const struct inode *inode)
{
    enum level level = (enum level) atomic_load_explicit(&inode->level, memory_order_relaxed);

    return required_level_check(POLICY_OP_WRITE, level, false) < 0 && required_level_check(POLICY_OP_READ, level, false) == 0 &&
           inode_has(inode, INODE_BASE) && S_ISREG(atomic_load(&inode->mode));
}

/* A base on a stacked file system cannot be passed through, and is served as usual. */
static int open_backing(struct fence *f, struct inode *inode)
{
    struct handle *h;
    int id, r = handle_get(f, inode, LAYER_BASE, &h);

    if (r < 0)
        return r;
    id = backing_open(f->passthrough->device, h->fd);
    handle_put(f, h);
    return id < 0 ? 0 : id;
}

int passthrough_open(struct fence *f, struct inode *inode, bool for_writing)
{
    struct passthrough *p = f->passthrough;
    struct opened_inode *o;
    int id = 0;

    autolock(&p->lock);
    o = p->cap ? slot_of(p, inode->node) : NULL;
    if (!o || !o->node) {
        if (is_eligible(inode))
            id = open_backing(f, inode);
        if (id < 0)
            return id;
        o = opened_add(p, inode->node, id);
    } else if (o->backing_id && for_writing) {
        /* It was opened for reading under rules that have changed since, and can be opened again when those are closed. */
        return -ETXTBSY;
    }
    o->count++;
    return o->backing_id;
}

void passthrough_release(struct fence *f, struct inode *inode)
{
    struct passthrough *p = f->passthrough;

    autolock(&p->lock);
    struct opened_inode *o = p->cap ? slot_of(p, inode->node) : NULL;
    if (!o || !o->node || --o->count > 0)
        return;
    backing_close(p->device, o->backing_id);
    opened_remove(p, o);
}
