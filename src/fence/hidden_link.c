#include "fence/hidden_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash_table.h"
#include "base/mem.h"
#include "fence/inode.h"
#include "fence/invalidate.h"

/* A file with several names, as the walk found it. Files that are not hidden are recorded too: one that is not among them, or
 * has another ctime, got a name since. */
struct linked_file {
    struct hash_link link;
    dev_t dev;
    ino_t ino;
    int64_t changed_ns;
    bool is_hidden;
};

struct hidden_links {
    struct fence *fence; /* borrowed */
    pthread_mutex_t lock;
    bool is_collected;
    struct hash_table files; /* of owned struct linked_file */
    _Atomic bool any_hidden;
    _Atomic uint64_t walks;
    bool is_notifying, notifies_again; /* the thread runs; it must run again */
    bool has_notifier;                 /* it was started and not joined; guarded by lock */
    pthread_t notifier;
};

static void linked_files_done(struct hash_table *files)
{
    for (struct hash_link *link = hash_table_next(files, NULL), *next; link; link = next) {
        next = hash_table_next(files, link);
        free(hash_link_in(link, struct linked_file, link));
    }
    hash_table_done(files);
}

struct hidden_links *hidden_links_new(struct fence *f)
{
    struct hidden_links *links = xnew(struct hidden_links);

    links->fence = f;
    pthread_mutex_init(&links->lock, NULL);
    return links;
}

void hidden_links_free(struct hidden_links *links)
{
    if (!links)
        return;
    if (links->has_notifier)
        pthread_join(links->notifier, NULL);
    pthread_mutex_destroy(&links->lock);
    linked_files_done(&links->files);
    free(links);
}

void hidden_links_forget(struct fence *f)
{
    autolock(&f->hidden_links->lock);
    f->hidden_links->is_collected = false;
}

static uint64_t hash_of_file(dev_t dev, ino_t ino)
{
    return ino ^ dev * 0x9e3779b97f4a7c15ULL;
}

/* Returns NULL if the walk did not find it. */
static struct linked_file *linked_files_find(const struct hash_table *files, dev_t dev, ino_t ino)
{
    struct hash_link *link = hash_table_first(files, hash_of_file(dev, ino));

    for (; link; link = hash_link_next(link)) {
        struct linked_file *file = hash_link_in(link, struct linked_file, link);
        if (file->dev == dev && file->ino == ino)
            return file;
    }
    return NULL;
}

/* ---- notifying the kernel ---- */

static void add_loaded_dir(struct fence *f, struct entry *e, void *cookie)
{
    (void) f;
    if (!e->inode || !e->inode->dir)
        return;
    e->inode->dir->version++;
    inode_list_add(cookie, e->inode);
}

static void hidden_links_notify_once(struct fence *f)
{
    struct inode_list dirs = { 0 };

    tree_lock(f);
    f->root->dir->version++;
    tree_each_below(f, f->root, add_loaded_dir, &dirs);
    tree_unlock(f);
    notify_listing(f, f->root);
    for (size_t i = 0; i < dirs.count; i++)
        notify_listing(f, dirs.items[i]);
    inode_list_done(f, &dirs);
}

/* Runs in a thread of its own. A worker must not wait for the kernel to drop a listing: the process that has the directory
 * locked may be waiting for that worker. */
static void *hidden_links_notify(void *arg)
{
    struct hidden_links *links = arg;
    bool again = true;

    while (again) {
        hidden_links_notify_once(links->fence);
        pthread_mutex_lock(&links->lock);
        links->is_notifying = again = links->notifies_again;
        links->notifies_again = false;
        pthread_mutex_unlock(&links->lock);
    }
    return NULL;
}

/* [links->lock] */
static void hidden_links_start_notifying(struct hidden_links *links)
{
    if (links->is_notifying) {
        links->notifies_again = true;
        return;
    }
    if (links->has_notifier)
        pthread_join(links->notifier, NULL); /* it is about to end */
    links->has_notifier = links->is_notifying = pthread_create(&links->notifier, NULL, hidden_links_notify, links) == 0;
}

/* ---- walking the base ---- */

struct link_collection {
    struct fence *f;
    struct match_state *matches[FILE_WALK_DEPTH_MAX + 2]; /* owned; by depth, [0] is the root */
    struct hash_table files;                              /* of owned struct linked_file */
    bool any_hidden;
};

/* The first stat counts: a name that comes during the walk changes the ctime, which causes another walk. */
static void link_collection_add(struct link_collection *c, const struct stat *st, bool is_hidden)
{
    struct linked_file *file = linked_files_find(&c->files, st->st_dev, st->st_ino);

    if (!file) {
        file = xnew(struct linked_file);
        *file = (struct linked_file){ .dev = st->st_dev, .ino = st->st_ino, .changed_ns = clock_ns_of_timespec(st->st_ctim) };
        hash_table_add(&c->files, &file->link, hash_of_file(st->st_dev, st->st_ino));
    }
    file->is_hidden |= is_hidden;
    c->any_hidden |= is_hidden;
}

/* A directory that we may not read shows nothing through us. */
static int link_collection_on_entry(const struct file_entry *entry, void *cookie)
{
    struct link_collection *c = cookie;
    struct match_state *at = ruleset_step(c->f->rules, c->matches[entry->depth - 1], entry->name, strlen(entry->name));

    match_state_unref(c->matches[entry->depth]);
    c->matches[entry->depth] = at;
    if (S_ISREG(entry->st->st_mode) && entry->st->st_nlink > 1)
        link_collection_add(c, entry->st, required_level_check(POLICY_OP_LOOKUP, match_state_level(at), false) < 0);
    if (S_ISDIR(entry->st->st_mode) &&
        (entry->depth > DEPTH_MAX || faccessat(entry->dirfd, entry->name, R_OK | X_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) < 0))
        return FILE_WALK_SKIP;
    return FILE_WALK_ON;
}

/* [links->lock] */
static int hidden_links_collect(struct hidden_links *links)
{
    struct link_collection c = { .f = links->fence, .matches = { match_state_ref(ruleset_root(links->fence->rules)) } };
    atomic_fetch_add(&links->walks, 1);
    int r = file_walk(links->fence->base_fd, ".", link_collection_on_entry, &c, NULL);

    for (size_t i = 0; i < ARRAY_LEN(c.matches); i++)
        match_state_unref(c.matches[i]);
    if (r < 0) {
        linked_files_done(&c.files);
        return r;
    }
    linked_files_done(&links->files);
    links->files = c.files;
    atomic_store(&links->any_hidden, c.any_hidden);
    links->is_collected = true;
    if (c.any_hidden && links->fence->session)
        hidden_links_start_notifying(links);
    return 0;
}

/* ---- checks ---- */

int hidden_link_check(struct fence *f, const struct stat *st)
{
    struct hidden_links *links = f->hidden_links;
    const struct linked_file *file;
    int r = 0;

    if (!S_ISREG(st->st_mode) || st->st_nlink < 2)
        return 0;
    autolock(&links->lock);
    file = links->is_collected ? linked_files_find(&links->files, st->st_dev, st->st_ino) : NULL;
    if (!file || file->changed_ns != clock_ns_of_timespec(st->st_ctim)) {
        r = hidden_links_collect(links);
        file = linked_files_find(&links->files, st->st_dev, st->st_ino);
    }
    return r < 0 ? r : file && file->is_hidden ? -ENOENT : 0;
}

uint64_t hidden_links_walks(const struct fence *f)
{
    return atomic_load_explicit(&f->hidden_links->walks, memory_order_relaxed);
}

bool hidden_links_any(const struct fence *f)
{
    return atomic_load_explicit(&f->hidden_links->any_hidden, memory_order_relaxed);
}

bool hidden_link_is_known(struct fence *f, dev_t dev, ino_t ino)
{
    struct hidden_links *links = f->hidden_links;
    const struct linked_file *file;

    autolock(&links->lock);
    file = linked_files_find(&links->files, dev, ino);
    return file && file->is_hidden;
}
