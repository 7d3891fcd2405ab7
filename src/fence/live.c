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

#include "base/clock.h"
#include "base/mem.h"
#include "fence/handle.h"
#include "fence/inode.h"
#include "fence/layer.h"
#include "fence/notify.h"
#include "fence/passage.h"
#include "fence/resolve.h"

#define MASK (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_ONLYDIR)
#define RENAMING (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)

/*
 * Every directory of the base that is loaded is watched. What inotify tells falls into three kinds:
 *
 *   content or attributes of a file     the kernel forgets its pages and attributes
 *   a name came, went, was replaced     the entry is cut from its inode (who has the file open keeps the old one), the kernel
 *                                       forgets the name and the listing, the directory gets a new time
 *   a hidden name, or something in      searches for visible things below it are void: it is searched anew, here, and only if it
 *   a hidden directory                  leads to something now the kernel forgets what it knew of the name
 *   events were lost                    everything is asked for again
 *
 * Telling the kernel to forget is not without effect: an answer about the same directory that is on its way at that moment does
 * not count for it (fs/fuse: attr_version). So it may not depend on what is hidden. A directory that was visible and is not loaded
 * any more, because nobody asks for it or because the sandbox removed it, has nothing in any cache: what happens there is nothing
 * to us.
 *
 * A change of a hidden name is none for the sandbox and has no effect, not even on a directory's time. Paths the delta covers
 * are not affected by what happens below them. When the kernel grants no more watches the fence goes blind: answers then
 * hold for a second only.
 */
struct watch {
    int wd;        /* 0: free slot */
    uint64_t node; /* of the directory; it may have been forgotten since */
    char *path;    /* owned; NULL unless it is watched for the sake of what may become visible below it */
};

struct live {
    struct fence *f;
    int fd;      /* owned: inotify */
    int stop_fd; /* owned: eventfd */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    struct watch *watches; /* guarded by lock; open addressing */
    size_t cap, count;
};

/* Nobody tells us of changes made on another machine. */
static bool is_remote(int fd)
{
    static const uint32_t kinds[] = { 0x6969, 0xff534d42, 0xfe534d42, 0x65735546, 0x01021997, 0x00c36400, 0x5346414f };
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
    struct live *live;
    int fd = is_remote(f->base_fd) ? -1 : inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

    if (fd < 0)
        return NULL;
    live = xnew(struct live);
    live->f = f;
    live->fd = fd;
    live->stop_fd = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&live->lock, NULL);
    return live;
}

void live_free(struct live *live)
{
    if (!live)
        return;
    live_stop(live);
    close(live->fd);
    if (live->stop_fd >= 0)
        close(live->stop_fd);
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

void live_watch(struct fence *f, struct inode *dir)
{
    char path[40];
    struct handle *h;
    int wd;

    if (!f->live || handle_get(f, dir, LAYER_BASE, &h) < 0)
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", h->fd);
    wd = inotify_add_watch(f->live->fd, path, MASK);
    handle_put(f, h);
    if (wd >= 0)
        remember(f->live, wd, dir->node, dup_hidden_path(f, dir));
    else
        atomic_store(&f->is_blind, true);
}

/* ---- what happened ---- */

enum sight { SIGHT_NONE, SIGHT_BELOW, SIGHT_FULL };

/* What a change of that name can mean to the sandbox: nothing, that a passage is to be searched for anew, or what it says. */
static enum sight sight_of(struct fence *f, struct inode *dir, const char *name)
{
    autoptr(place) at = inode_dup_place(f, dir);
    autoptr(place) place = at ? ruleset_step(f->rules, at, name, strlen(name)) : NULL;

    if (!place)
        return SIGHT_NONE;
    if (need_check(NEED_LOOKUP, place_level(place), false) == 0)
        return SIGHT_FULL;
    return ruleset_may_show_below(f->rules, place) ? SIGHT_BELOW : SIGHT_NONE;
}

/* A directory that the delta shares with the base: the base's part may be another one now. */
static void renew_merged(struct fence *f, struct inode *dir, struct inode *child, const char *name)
{
    struct stat st;
    bool shows = layer_base_has(f, dir, name, &st) == 1 && S_ISDIR(st.st_mode);

    handle_drop(f, child, LAYER_BASE);
    if (!shows)
        inode_clear(child, INODE_BASE);
}

/* The inode that had the name keeps its open content, whoever has it open; the name is free for what is there now. */
static void cut_name(struct fence *f, struct inode *dir, const char *name)
{
    tree_lock(f);
    struct entry *e = entry_find(dir, name, strlen(name));
    if (e && e->flags == 0 && e->inode) {
        inode_ref(dir);
        if (e->inode->dir)
            tree_purge_below(f, e->inode);
        else
            handle_pin(f, e->inode, LAYER_BASE);
        entry_unbind(f, e);
        entry_tidy(f, e);
        inode_unref_locked(f, dir);
    }
    tree_unlock(f);
}

/* A visible change. That a passage comes or goes is not told by a time: nobody knows whether it was there before it was asked for,
 * and what is known is forgotten when something hidden moves. */
static void touch(struct fence *f, struct inode *dir)
{
    tree_lock(f);
    dir->dir->version++;
    dir->dir->mtime_ns = dir->dir->ctime_ns = clock_wall_ns();
    tree_unlock(f);
}

static struct inode *child_of(struct fence *f, struct inode *dir, const char *name, uint8_t *ret_flags)
{
    struct inode *inode = NULL;

    tree_lock(f);
    const struct entry *e = entry_find(dir, name, strlen(name));
    *ret_flags = e ? e->flags : 0;
    if (e && e->inode) {
        inode = e->inode;
        inode_ref(inode);
    }
    tree_unlock(f);
    return inode;
}

static void on_renaming(struct fence *f, struct inode *dir, const char *name, struct inode *child, uint8_t flags,
                        enum sight sight)
{
    bool is_dir = child && inode_is_dir(child);

    pthread_rwlock_rdlock(&f->gate);
    if ((flags & ENTRY_UP) && is_dir)
        renew_merged(f, dir, child, name);
    else if (flags == 0)
        cut_name(f, dir, name);
    if (sight == SIGHT_BELOW)
        passages_forget(f);
    else
        passages_forget_absent(f);
    if (sight == SIGHT_FULL && flags == 0)
        touch(f, dir);
    pthread_rwlock_unlock(&f->gate);
    notify_entry(f, dir, name, is_dir);
    notify_pages(f, dir);
}

static bool is_shown(const struct fence *f, const struct inode *dir)
{
    return dir == f->root || atomic_load(&dir->level) != LEVEL_NONE || inode_has(dir, INODE_PASSAGE);
}

/* Whether a hidden name leads to something visible now is found out before anybody is told that something changed. */
static void search_anew(struct fence *f, struct inode *dir, const char *name)
{
    struct inode *found = NULL;

    pthread_rwlock_rdlock(&f->gate);
    passages_forget_absent(f);
    if (sight_of(f, dir, name) == SIGHT_BELOW) {
        autoptr(place) at = inode_dup_place(f, dir);
        autoptr(place) place = at ? ruleset_step(f->rules, at, name, strlen(name)) : NULL;
        cut_name(f, dir, name);
        if (!place || resolve_name(f, dir, name, place, true, &found, NULL) < 0)
            found = NULL;
    }
    pthread_rwlock_unlock(&f->gate);
    if (found) {
        notify_entry(f, dir, name, true);
        notify_pages(f, dir);
    }
    inode_unref(f, found);
}

/* The name on the path that is not shown, though the directory it is in is loaded: if something below it came in sight, that is
 * where. NULL when there is none, or when the name is shown but not loaded: then nobody has looked further. */
static struct inode *find_end_of_sight(struct fence *f, const char *path, char ret_name[NAME_MAX + 1])
{
    struct inode *dir = f->root;

    autolock(&f->names);
    while (*path) {
        size_t len = strcspn(path, "/");
        const struct entry *e = entry_find(dir, path, len);
        if (!e || !e->inode || !is_shown(f, e->inode)) {
            memcpy(ret_name, path, len);
            ret_name[len] = 0;
            if (!(e && e->inode) && passage_was_shown(f, inode_number_of(dir->ino, path, len)))
                return NULL;
            inode_ref(dir);
            return dir;
        }
        if (!e->inode->dir)
            return NULL;
        dir = e->inode;
        path += len + (path[len] == '/');
    }
    return NULL;
}

static void on_hidden_event(struct fence *f, const char *path)
{
    char name[NAME_MAX + 1];
    struct inode *dir = find_end_of_sight(f, path, name);

    if (dir)
        search_anew(f, dir, name);
    else
        passages_forget_absent(f);
    inode_unref(f, dir);
}

static void on_event(struct fence *f, struct inode *dir, const struct inotify_event *event)
{
    const char *name = event->name;
    bool is_renaming = event->mask & RENAMING, was_shown;
    uint8_t flags;
    struct inode *child;
    enum sight sight;

    pthread_rwlock_rdlock(&f->gate);
    sight = sight_of(f, dir, name);
    pthread_rwlock_unlock(&f->gate);
    if (sight == SIGHT_NONE)
        return;
    child = child_of(f, dir, name, &flags);
    was_shown = child ? is_shown(f, child) : passage_was_shown(f, inode_number_of(dir->ino, name, strlen(name)));
    if (is_renaming && sight == SIGHT_BELOW && !was_shown)
        search_anew(f, dir, name);
    else if (is_renaming)
        on_renaming(f, dir, name, child, flags, sight);
    else if (child && sight == SIGHT_FULL && !inode_has(child, INODE_UP))
        notify_pages(f, child);
    inode_unref(f, child);
}

struct dirs {
    struct inode **items;
    size_t count, cap;
};

static void collect_dir(struct fence *f, struct entry *e, void *cookie)
{
    struct dirs *dirs = cookie;

    (void) f;
    if (!e->inode || !e->inode->dir)
        return;
    vec_room(&dirs->items, &dirs->cap, dirs->count);
    dirs->items[dirs->count++] = e->inode;
    inode_ref(e->inode);
    e->inode->dir->version++;
}

static void renew_everything(struct fence *f)
{
    struct dirs dirs = { 0 };

    passages_forget_absent(f);
    tree_lock(f);
    f->root->dir->version++;
    tree_each_below(f, f->root, collect_dir, &dirs);
    tree_unlock(f);
    notify_all_names(f);
    notify_listing(f, f->root);
    for (size_t i = 0; i < dirs.count; i++) {
        notify_listing(f, dirs.items[i]);
        inode_unref(f, dirs.items[i]);
    }
    free(dirs.items);
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
    struct watch watch = dup_watch(live, event->wd);
    struct inode *dir = watch.node ? inode_ref_by_node(live->f, watch.node) : NULL;

    if (watch.path && !(dir && is_shown(live->f, dir)))
        on_hidden_event(live->f, watch.path);
    else if (dir && event->len > 0)
        on_event(live->f, dir, event);
    inode_unref(live->f, dir);
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
        renew_everything(live->f);
}

static void *watch_over(void *arg)
{
    struct live *live = arg;

    for (;;) {
        struct pollfd fds[2] = { { live->fd, POLLIN, 0 }, { live->stop_fd, POLLIN, 0 } };
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return NULL;
        if (fds[1].revents)
            return NULL;
        if (fds[0].revents & POLLIN)
            read_events(live);
    }
}

int live_start(struct live *live)
{
    int r = pthread_create(&live->thread, NULL, watch_over, live);

    live->running = r == 0;
    return -r;
}

void live_stop(struct live *live)
{
    uint64_t one = 1;

    if (!live->running)
        return;
    if (write(live->stop_fd, &one, sizeof(one)) == sizeof(one))
        pthread_join(live->thread, NULL);
    live->running = false;
}
