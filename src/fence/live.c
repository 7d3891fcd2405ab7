#include "fence/live.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "fence/blind.h"
#include "fence/handle.h"
#include "fence/inode.h"
#include "fence/layer.h"
#include "fence/renew.h"
#include "fence/spelling.h"

#define MASK (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_ONLYDIR)
#define RENAMING (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)

/*
 * Every directory of the base that is loaded is watched. What inotify tells is of these kinds:
 *
 *   content or attributes of a file     the kernel forgets its pages and attributes
 *   a name came, went, was replaced     the entry is cut from its inode (who has the file open keeps the old one), the kernel
 *                                       forgets the name and the listing, the directory gets a new time
 *   a hidden name, or something in      searches for visible things below it are void: it is searched anew, here, and only if it
 *   a hidden directory                  leads to something now the kernel forgets what it knew of the name
 *   events were lost                    everything is compared with what it was
 *
 * Telling the kernel to forget is not without effect: an answer about the same directory that is on its way at that moment does
 * not count for it (fs/fuse: attr_version). So it may not depend on what is hidden. A directory that was visible and is not loaded
 * any more, because nobody asks for it or because the sandbox removed it, has nothing in any cache: what happens there is nothing
 * to us.
 *
 * Directories for which the kernel grants no watch, or would tell nothing, are left to blind.c, which tries again.
 */
struct watch {
    int wd;        /* 0: free slot */
    uint64_t node; /* of the directory; it may have been forgotten since */
    char *path;    /* owned; NULL unless it is watched for the sake of what may become visible below it */
};

struct live {
    struct fence *f;
    _Atomic int fd; /* owned: inotify; -1 while the kernel grants none */
    int wake_fd;    /* owned: eventfd */
    bool is_remote; /* nothing of this base can be watched */
    dev_t dev;      /* of the base; what is mounted in it may be remote */
    pthread_t thread;
    bool running;
    _Atomic bool stopping;
    pthread_mutex_t lock;
    struct watch *watches; /* guarded by lock; open addressing */
    size_t cap, count;
};

/* Nobody tells us of changes made on another machine, or by another way to the same files. */
static bool is_remote(int fd)
{
    static const uint32_t kinds[] = {
        0x6969,     /* NFS */
        0xff534d42, /* CIFS */
        0xfe534d42, /* SMB2 */
        0x517b,     /* SMB */
        0x65735546, /* FUSE, virtiofs */
        0x01021997, /* 9p */
        0x00c36400, /* Ceph */
        0x5346414f, /* AFS */
        0x6b414653, /* kAFS */
        0x73757245, /* Coda */
        0x0bd00bd0, /* Lustre */
        0x47504653, /* GPFS */
        0x01161970, /* GFS2 */
        0x7461636f, /* OCFS2 */
        0x786f4256, /* VirtualBox */
        0xbacbacbc, /* VMware */
    };
    struct statfs st;

    if (fstatfs(fd, &st) < 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if ((uint32_t) st.f_type == kinds[i])
            return true;
    }
    return false;
}

struct live *live_new(struct fence *f)
{
    struct live *live = xnew(struct live);
    struct stat st = { 0 };

    live->f = f;
    live->is_remote = is_remote(f->base_fd) || fstat(f->base_fd, &st) < 0;
    live->dev = st.st_dev;
    live->fd = live->is_remote ? -1 : inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    live->wake_fd = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&live->lock, NULL);
    return live;
}

void live_free(struct live *live)
{
    if (!live)
        return;
    live_stop(live);
    if (live->fd >= 0)
        close(live->fd);
    if (live->wake_fd >= 0)
        close(live->wake_fd);
    pthread_mutex_destroy(&live->lock);
    for (size_t i = 0; i < live->cap; i++)
        free(live->watches[i].path);
    free(live->watches);
    free(live);
}

static struct watch *slot_of(struct live *live, int wd)
{
    size_t i = (size_t) wd & (live->cap - 1);

    while (live->watches[i].wd && live->watches[i].wd != wd)
        i = (i + 1) & (live->cap - 1);
    return &live->watches[i];
}

static void grow(struct live *live)
{
    struct watch *old = live->watches;
    size_t old_cap = live->cap;

    live->cap = old_cap ? old_cap * 2 : 64;
    live->watches = xalloc(live->cap * sizeof(*live->watches));
    for (size_t i = 0; i < old_cap; i++) {
        if (old[i].wd)
            *slot_of(live, old[i].wd) = old[i];
    }
    free(old);
}

static void remember(struct live *live, int wd, uint64_t node, char *take_path)
{
    autolock(&live->lock);
    if (live->count * 2 >= live->cap)
        grow(live);
    struct watch *slot = slot_of(live, wd);
    live->count += !slot->wd;
    free(slot->path);
    *slot = (struct watch){ wd, node, take_path };
}

static char *dup_hidden_path(struct fence *f, struct inode *dir)
{
    struct buf path = BUF_EMPTY;

    if (dir == f->root || atomic_load(&dir->level) != LEVEL_NONE)
        return NULL;
    tree_path_of(f, dir, NULL, &path);
    return buf_dup_take(&path);
}

static void wake(struct live *live)
{
    uint64_t one = 1;

    if (write(live->wake_fd, &one, sizeof(one)) < 0)
        return;
}

/* There are few instances for a user; one that had none may be free by now. */
static int get_instance(struct live *live)
{
    int fd, none = -1;

    if (live->fd >= 0)
        return 0;
    fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0)
        return -errno;
    if (atomic_compare_exchange_strong(&live->fd, &none, fd))
        wake(live);
    else
        close(fd);
    return 0;
}

static int add_watch(struct live *live, int dirfd, const struct stat *base)
{
    char path[40];
    struct stat st;
    int wd;

    if (!base && fstat(dirfd, &st) < 0)
        return -errno;
    if ((base ? base->st_dev : st.st_dev) != live->dev && is_remote(dirfd))
        return -EREMOTE;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", dirfd);
    wd = inotify_add_watch(live->fd, path, MASK);
    return wd < 0 ? -errno : wd;
}

int live_try_watch(struct fence *f, struct inode *dir, const struct stat *base)
{
    struct handle *h;
    int r = f->live->is_remote ? -EREMOTE : get_instance(f->live);

    if (r == 0)
        r = handle_get(f, dir, LAYER_BASE, &h);
    if (r != 0)
        return r;
    r = add_watch(f->live, h->fd, base);
    handle_put(f, h);
    if (r < 0)
        return r;
    remember(f->live, r, dir->node, dup_hidden_path(f, dir));
    return 0;
}

void live_watch(struct fence *f, struct inode *dir, const struct stat *base)
{
    if (f->live && live_try_watch(f, dir, base) < 0)
        blind_add(f, dir);
}

/* ---- what happened ---- */

/* Content or attributes. A directory's are kept in memory. */
static void on_changed(struct fence *f, struct inode *dir, const char *name, struct news *news)
{
    struct stat st;
    struct inode *child = NULL;

    if (renew_sight_of(f, dir, name) != SIGHT_FULL)
        return;
    tree_lock(f);
    const struct entry *e = entry_find(dir, name, strlen(name));
    if (e && e->inode && !inode_has(e->inode, INODE_UP)) {
        child = e->inode;
        inode_ref(child);
    }
    tree_unlock(f);
    if (!child)
        return;
    if (inode_is_dir(child) && layer_base_has(f, dir, name, &st) == 1 && S_ISDIR(st.st_mode))
        atomic_store(&child->mode, (uint16_t) (st.st_mode & (S_IFMT | 01777)));
    news_add_pages(f, news, child);
    inode_unref(f, child);
}

/* A copy, with a path of its own. */
static struct watch dup_watch(struct live *live, int wd)
{
    struct watch watch = { 0 };

    autolock(&live->lock);
    if (live->cap)
        watch = *slot_of(live, wd);
    if (watch.path)
        watch.path = xdup(watch.path);
    return watch;
}

static void on_watched(struct live *live, const struct inotify_event *event)
{
    struct fence *f = live->f;
    struct watch watch = dup_watch(live, event->wd);
    struct inode *dir = watch.node ? inode_ref_by_node(f, watch.node) : NULL;
    struct news news = NEWS_NONE;

    pthread_rwlock_rdlock(&f->gate);
    if (dir && (event->mask & RENAMING))
        spelling_doubt(f, dir);
    if (watch.path && !(dir && renew_is_shown(f, dir)))
        renew_hidden(f, watch.path, &news);
    else if (dir && event->len > 0 && (event->mask & RENAMING))
        renew_name(f, dir, event->name, &news);
    else if (dir && event->len > 0)
        on_changed(f, dir, event->name, &news);
    pthread_rwlock_unlock(&f->gate);
    news_send(f, &news, false);
    inode_unref(f, dir);
    free(watch.path);
}

static void read_events(struct live *live)
{
    char bytes[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n = read(live->fd, bytes, sizeof(bytes));
    bool lost = false;

    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *event = (const void *) (bytes + at);
        at += (ssize_t) sizeof(*event) + event->len;
        if (event->mask & IN_Q_OVERFLOW)
            lost = true;
        else if (!(event->mask & IN_IGNORED))
            on_watched(live, event);
    }
    if (lost)
        fence_base_changed(live->f, NULL, 0);
}

static void *watch_over(void *arg)
{
    struct live *live = arg;
    uint64_t count;

    while (!live->stopping) {
        /* No instance yet: poll() passes over a negative descriptor. */
        struct pollfd fds[2] = { { live->fd, POLLIN, 0 }, { live->wake_fd, POLLIN, 0 } };
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (fds[1].revents && read(live->wake_fd, &count, sizeof(count)) < 0)
            return NULL;
        if (fds[0].revents & POLLIN)
            read_events(live);
    }
    return NULL;
}

int live_start(struct live *live)
{
    int r = live->is_remote ? 0 : pthread_create(&live->thread, NULL, watch_over, live);

    live->running = !live->is_remote && r == 0;
    return -r;
}

void live_stop(struct live *live)
{
    if (!live->running)
        return;
    live->stopping = true;
    wake(live);
    pthread_join(live->thread, NULL);
    live->running = false;
}
