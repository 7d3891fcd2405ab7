#include "fence/passthrough.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/hash_table.h"
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
    struct hash_link link; /* the hash is its node id */
    uint32_t count;
    int backing_id; /* 0: through our page cache */
};

struct passthrough {
    int device; /* borrowed from the session */
    pthread_mutex_t lock;
    struct hash_table opened; /* of owned struct opened_inode; guarded by lock */
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
    for (struct hash_link *link = hash_table_next(&p->opened, NULL), *next; link; link = next) {
        next = hash_table_next(&p->opened, link);
        free(hash_link_in(link, struct opened_inode, link));
    }
    hash_table_done(&p->opened);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static struct opened_inode *opened_find(const struct passthrough *p, uint64_t node)
{
    struct hash_link *link = hash_table_first(&p->opened, node);

    return link ? hash_link_in(link, struct opened_inode, link) : NULL;
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
    o = opened_find(p, inode->node);
    if (!o) {
        if (is_eligible(inode))
            id = open_backing(f, inode);
        if (id < 0)
            return id;
        o = xnew(struct opened_inode);
        o->backing_id = id;
        hash_table_add(&p->opened, &o->link, inode->node);
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
    struct opened_inode *o = opened_find(p, inode->node);
    if (!o || --o->count > 0)
        return;
    backing_close(p->device, o->backing_id);
    hash_table_remove(&p->opened, &o->link);
    free(o);
}
