#include "fence/base_watch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/hash_table.h"
#include "base/mem.h"
#include "fence/casefold.h"
#include "fence/handle.h"
#include "fence/inode.h"
#include "fence/layer.h"
#include "fence/revalidate.h"
#include "fence/unwatched.h"

#define MASK (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_ONLYDIR)
#define RENAMING (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)

/*
 * Every loaded directory of the base is watched. The kinds of inotify events and what they cause:
 *
 *   content or attributes of a file     the kernel drops its pages and attributes
 *   a name created, removed, replaced   the entry is detached from its inode (an open file keeps the old one), the kernel drops
 *                                       the name and the listing, the directory gets a new time
 *   a hidden name, or something in      earlier searches for visible things below it are void. It is searched again here, and
 *   a hidden directory                  only if something visible is found the kernel drops what it knew of the name
 *   events lost                         everything is compared with its last state
 *
 * Invalidating has a side effect: the kernel does not cache an answer about the same directory that is under way at that moment
 * (fs/fuse: attr_version). So whether we invalidate must not depend on hidden things. A directory that was visible and is not
 * loaded any more, because nothing uses it or the sandbox removed it, is in no cache; changes in it need no action.
 *
 * Directories for which the kernel grants no watch, or would report nothing, are handled by unwatched.c, which tries again.
 */
struct watched_dir {
    struct hash_link link; /* the hash is the watch descriptor */
    uint64_t node;         /* of the directory, which may have been forgotten since */
    char *path;            /* owned; NULL unless the directory is hidden and watched for what may become visible below it */
};

struct base_watch {
    struct fence *f;
    _Atomic int fd; /* owned; inotify; -1 while the kernel grants none */
    int wake_fd;    /* owned; eventfd */
    bool is_remote; /* nothing in this base can be watched */
    dev_t dev;      /* of the base; what is mounted in it may be remote */
    pthread_t thread;
    bool running;
    _Atomic bool stopping;
    pthread_mutex_t lock;
    struct hash_table watches; /* of owned struct watched_dir; guarded by lock */
};

/* inotify reports no changes that are made on another machine, or through another mount of the same files. */
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

struct base_watch *base_watch_new(struct fence *f)
{
    struct base_watch *base_watch = xnew(struct base_watch);
    struct stat st = { 0 };

    base_watch->f = f;
    base_watch->is_remote = is_remote(f->base_fd) || fstat(f->base_fd, &st) < 0;
    base_watch->dev = st.st_dev;
    base_watch->fd = base_watch->is_remote ? -1 : inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    base_watch->wake_fd = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&base_watch->lock, NULL);
    return base_watch;
}

void base_watch_free(struct base_watch *base_watch)
{
    if (!base_watch)
        return;
    base_watch_stop(base_watch);
    if (base_watch->fd >= 0)
        close(base_watch->fd);
    if (base_watch->wake_fd >= 0)
        close(base_watch->wake_fd);
    pthread_mutex_destroy(&base_watch->lock);
    for (struct hash_link *link = hash_table_next(&base_watch->watches, NULL), *next; link; link = next) {
        struct watched_dir *watch = hash_link_in(link, struct watched_dir, link);
        next = hash_table_next(&base_watch->watches, link);
        free(watch->path);
        free(watch);
    }
    hash_table_done(&base_watch->watches);
    free(base_watch);
}

/* [lock] */
static struct watched_dir *find_watch(const struct base_watch *base_watch, int wd)
{
    struct hash_link *link = hash_table_first(&base_watch->watches, (uint64_t) wd);

    return link ? hash_link_in(link, struct watched_dir, link) : NULL;
}

static void watch_table_add(struct base_watch *base_watch, int wd, uint64_t node, char *take_path)
{
    struct watched_dir *watch;

    autolock(&base_watch->lock);
    watch = find_watch(base_watch, wd);
    if (!watch) {
        watch = xnew(struct watched_dir);
        hash_table_add(&base_watch->watches, &watch->link, (uint64_t) wd);
    }
    free(watch->path);
    watch->node = node;
    watch->path = take_path;
}

static char *dup_hidden_path(struct fence *f, struct inode *dir)
{
    struct buf path = BUF_EMPTY;

    if (dir == f->root || atomic_load(&dir->level) != LEVEL_NONE)
        return NULL;
    tree_path_of(f, dir, NULL, &path);
    return buf_dup_take(&path);
}

static void wake_watcher(struct base_watch *base_watch)
{
    uint64_t one = 1;

    if (write(base_watch->wake_fd, &one, sizeof(one)) < 0)
        return;
}

/* A user may have few inotify instances; if there was none at the start, one may be free by now. */
static int get_inotify(struct base_watch *base_watch)
{
    int fd, none = -1;

    if (base_watch->fd >= 0)
        return 0;
    fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd < 0)
        return -errno;
    if (atomic_compare_exchange_strong(&base_watch->fd, &none, fd))
        wake_watcher(base_watch);
    else
        close(fd);
    return 0;
}

static int inotify_add_dir(struct base_watch *base_watch, int dirfd, const struct stat *base)
{
    char path[40];
    struct stat st;
    int wd;

    if (!base && fstat(dirfd, &st) < 0)
        return -errno;
    if ((base ? base->st_dev : st.st_dev) != base_watch->dev && is_remote(dirfd))
        return -EREMOTE;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", dirfd);
    wd = inotify_add_watch(base_watch->fd, path, MASK);
    return wd < 0 ? -errno : wd;
}

int base_watch_try_add(struct fence *f, struct inode *dir, const struct stat *base)
{
    struct handle *h;
    int r = f->base_watch->is_remote ? -EREMOTE : get_inotify(f->base_watch);

    if (r == 0)
        r = handle_get(f, dir, LAYER_BASE, &h);
    if (r != 0)
        return r;
    r = inotify_add_dir(f->base_watch, h->fd, base);
    handle_put(f, h);
    if (r < 0)
        return r;
    watch_table_add(f->base_watch, r, dir->node, dup_hidden_path(f, dir));
    return 0;
}

void base_watch_add(struct fence *f, struct inode *dir, const struct stat *base)
{
    if (f->base_watch && base_watch_try_add(f, dir, base) < 0)
        unwatched_add(f, dir);
}

/* ---- what happened ---- */

/* Content or attributes changed. Those of a directory are kept in memory. */
static void base_watch_on_change(struct fence *f, struct inode *dir, const char *name, struct inval_batch *batch)
{
    struct stat st;
    struct inode *child;

    if (revalidate_visibility(f, dir, name) != VISIBILITY_FULL)
        return;
    child = entry_dup_inode(f, dir, name);
    if (!child || inode_has(child, INODE_UP)) {
        inode_unref(f, child);
        return;
    }
    if (inode_is_dir(child) && layer_base_has(f, dir, name, &st) == 1 && S_ISDIR(st.st_mode))
        atomic_store(&child->mode, (uint16_t) (st.st_mode & (S_IFMT | 01777)));
    inval_batch_add_pages(f, batch, child);
    inode_unref(f, child);
}

static void base_watch_on_event(struct base_watch *base_watch, const struct inotify_event *event)
{
    struct fence *f = base_watch->f;
    struct inval_batch batch = INVAL_BATCH_NONE;
    autofree char *path = NULL;
    struct inode *dir;

    pthread_mutex_lock(&base_watch->lock);
    const struct watched_dir *watch = find_watch(base_watch, event->wd);
    uint64_t node = watch ? watch->node : 0;
    if (watch && watch->path)
        path = xdup(watch->path);
    pthread_mutex_unlock(&base_watch->lock);
    dir = node ? inode_ref_by_node(f, node) : NULL;
    pthread_rwlock_rdlock(&f->gate);
    if (dir && (event->mask & RENAMING))
        casefold_recheck(f, dir);
    if (path && !(dir && revalidate_is_shown(f, dir)))
        revalidate_hidden(f, path, &batch);
    else if (dir && event->len > 0 && (event->mask & RENAMING))
        revalidate_name(f, dir, event->name, &batch);
    else if (dir && event->len > 0)
        base_watch_on_change(f, dir, event->name, &batch);
    pthread_rwlock_unlock(&f->gate);
    inval_batch_send(f, &batch, false);
    inode_unref(f, dir);
}

static void base_watch_read_events(struct base_watch *base_watch)
{
    char bytes[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n = read(base_watch->fd, bytes, sizeof(bytes));
    bool lost = false;

    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *event = (const void *) (bytes + at);
        at += (ssize_t) sizeof(*event) + event->len;
        if (event->mask & IN_Q_OVERFLOW)
            lost = true;
        else if (!(event->mask & IN_IGNORED))
            base_watch_on_event(base_watch, event);
    }
    if (lost)
        fence_base_changed(base_watch->f, NULL, 0);
}

static void *base_watch_thread_main(void *arg)
{
    struct base_watch *base_watch = arg;
    uint64_t count;

    while (!base_watch->stopping) {
        /* poll() ignores a negative descriptor: no instance yet. */
        struct pollfd fds[2] = { { base_watch->fd, POLLIN, 0 }, { base_watch->wake_fd, POLLIN, 0 } };
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (fds[1].revents && read(base_watch->wake_fd, &count, sizeof(count)) < 0)
            return NULL;
        if (fds[0].revents & POLLIN)
            base_watch_read_events(base_watch);
    }
    return NULL;
}

int base_watch_start(struct base_watch *base_watch)
{
    int r = base_watch->is_remote ? 0 : pthread_create(&base_watch->thread, NULL, base_watch_thread_main, base_watch);

    base_watch->running = !base_watch->is_remote && r == 0;
    return -r;
}

void base_watch_stop(struct base_watch *base_watch)
{
    if (!base_watch->running)
        return;
    base_watch->stopping = true;
    wake_watcher(base_watch);
    pthread_join(base_watch->thread, NULL);
    base_watch->running = false;
}
