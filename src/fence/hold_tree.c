#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/directory.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/attr.h"
#include "fence/handle.h"
#include "fence/hold_int.h"
#include "fence/inode.h"
#include "fence/live.h"
#include "fence/number.h"
#include "fence/origin.h"
#include "fence/passage.h"
#include "fence/quota.h"
#include "fence/remove.h"
#include "fence/renew.h"
#include "fence/resolve.h"
#include "fence/seen.h"
#include "fence/spelling.h"
#include "fence/whiteout.h"

/* ---- what there is ---- */

void held_items_done(struct fence *f, struct held_items *items)
{
    for (size_t i = 0; i < items->count; i++) {
        inode_unref(f, items->items[i].dir);
        inode_unref(f, items->items[i].inode);
        free(items->items[i].path);
    }
    free(items->items);
    *items = (struct held_items){ 0 };
}

/* [locked] DEPTH_MAX bounds the recursion. */
static void add_below(struct held_items *items, struct inode *dir, const struct entry *e, const char *parent)
{
    struct held_item *item;
    struct inode *sub = e->inode && e->inode->dir ? e->inode : NULL;
    bool is_dir = (e->flags & ENTRY_UP) && (sub || e->type == DT_DIR);
    char *path = *parent ? xprintf("%s/%s", parent, e->name) : xdup(e->name);

    vec_room(&items->items, &items->cap, items->count);
    item = &items->items[items->count++];
    *item = (struct held_item){ .dir = dir, .inode = e->inode, .path = path, .flags = e->flags };
    item->name = path + strlen(path) - e->len;
    item->is_dir = is_dir;
    inode_ref(dir);
    if (e->inode)
        inode_ref(e->inode);
    for (uint32_t i = 0; is_dir && sub && i < sub->dir->bucket_count; i++) {
        for (const struct entry *in = sub->dir->buckets[i]; in; in = in->bucket_next) {
            if (in->flags)
                add_below(items, sub, in, path);
        }
    }
}

/* [locked] The directory that holds the last name of the path, as far as it is loaded; NULL. */
static struct inode *find_parent(struct fence *f, const char *path, const char **ret_name)
{
    struct inode *dir = f->root;

    for (;;) {
        size_t len = strcspn(path, "/");
        *ret_name = path;
        if (!path[len])
            return dir;
        const struct entry *e = len <= NAME_MAX ? entry_find(dir, path, len) : NULL;
        if (!e || !e->inode || !e->inode->dir)
            return NULL;
        dir = e->inode;
        path += len + 1;
    }
}

static bool stat_base(struct fence *f, const char *path, struct stat *ret)
{
    autofd int fd = path_open_beneath(f->base_fd, path, O_PATH, 0);

    return fd >= 0 && fstat(fd, ret) == 0 && spelling_check_path(f->base_fd, path) == 0;
}

static bool fits(const struct inode *inode, const struct stat *base)
{
    return (base->st_mode & S_IFMT) == (atomic_load(&inode->mode) & S_IFMT);
}

static bool is_one_of_several(struct fence *f, const struct inode *inode)
{
    autolock(&f->names);
    return !inode_has(inode, INODE_DEAD) && inode->names && inode->names->name_next;
}

/* Whoever has the file open goes on with it, unless the base's takes its place. */
static void keep_content(struct fence *f, struct held_item *item)
{
    struct stat st, base;
    struct handle *h;
    const char *name;
    autofd int dir = -1;

    if (item->is_dir || !(item->flags & ENTRY_UP) || path_open_parent_beneath(f->data_fd, item->path, &dir, &name) < 0)
        return;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        item->bytes = quota_bytes_of(&st);
    if (!item->inode || !S_ISREG(atomic_load(&item->inode->mode)) ||
        (stat_base(f, item->path, &base) && fits(item->inode, &base)))
        return;
    if (!is_one_of_several(f, item->inode)) {
        item->lives_on = inode_has(item->inode, INODE_ORPHAN) || remove_keep_open(f, item->inode, dir, name) == 0;
    } else if (handle_get(f, item->inode, LAYER_DELTA, &h) == 0) {
        /* Its other names may be about to go as well. */
        item->lives_on = handle_pin(f, item->inode, LAYER_DELTA);
        handle_put(f, h);
    }
}

void held_collect(struct fence *f, const char *path, struct held_items *items)
{
    size_t first = items->count, len = strlen(path);
    const char *name;

    tree_lock(f);
    struct inode *dir = find_parent(f, path, &name);
    const struct entry *e = dir && strlen(name) <= NAME_MAX ? entry_find(dir, name, strlen(name)) : NULL;
    if (e && e->flags) {
        autofree char *parent = xdupn(path, len - strlen(name) - (name > path));
        add_below(items, dir, e, parent);
    }
    tree_unlock(f);
    for (size_t i = first; i < items->count; i++)
        keep_content(f, &items->items[i]);
}

/* ---- what becomes of it ---- */

/* The base has a directory there: who stands in it stays there. */
static bool dir_becomes_base(struct fence *f, const struct held_item *item, struct news *news)
{
    struct inode *inode = item->inode;
    struct stat base;

    if (!inode || !stat_base(f, item->path, &base) || !S_ISDIR(base.st_mode) || !inode_has(item->dir, INODE_BASE))
        return false;
    /* Names that were remembered as absent may be there now. */
    news->is_wide |= !inode_has(inode, INODE_BASE);
    handle_drop(f, inode, LAYER_DELTA);
    handle_drop(f, inode, LAYER_BASE);
    tree_lock(f);
    struct entry *e = entry_find(item->dir, item->name, strlen(item->name));
    if (e)
        e->flags = 0;
    inode->dir->moved_ns = 0;
    inode->dir->version++;
    inode_set(inode, INODE_BASE);
    inode_clear(inode, INODE_UP | INODE_FRESH);
    atomic_store(&inode->mode, (uint16_t) (base.st_mode & (S_IFMT | 01777)));
    atomic_store(&inode->seen, seen_of(&base));
    int64_t mtime_ns = inode->dir->mtime_ns;
    tree_unlock(f);
    if (f->hands_over)
        numbers_keep_time(f, inode->ino, mtime_ns);
    live_watch(f, inode, &base);
    quota_give(&f->quota, 0, item->flags ? 1 : 0);
    origin_forget(f, item->path);
    news_add_name(f, news, item->dir, item->name, true);
    news_add_listing(f, news, inode);
    return true;
}

static void file_becomes_base(struct fence *f, const struct held_item *item, const struct stat *base, struct news *news)
{
    struct inode *inode = item->inode;

    handle_drop(f, inode, LAYER_DELTA);
    tree_lock(f);
    struct entry *e = entry_find(item->dir, item->name, strlen(item->name));
    if (e)
        e->flags = 0;
    inode_set(inode, INODE_BASE);
    inode_clear(inode, INODE_UP | INODE_FRESH | INODE_LINKED);
    atomic_store(&inode->mode, (uint16_t) (base->st_mode & (S_IFMT | 01777)));
    atomic_store(&inode->seen, seen_of(base));
    inode->noted = 0;
    tree_unlock(f);
    /* A symlink's target is remembered with its name. */
    if (S_ISLNK(base->st_mode))
        news_add_name(f, news, item->dir, item->name, false);
    news_add_pages(f, news, inode);
}

static void lose_name(struct fence *f, const struct held_item *item, struct news *news)
{
    bool is_dir = item->inode && inode_is_dir(item->inode);

    tree_lock(f);
    struct entry *e = inode_has(item->dir, INODE_DEAD) ? NULL : entry_find(item->dir, item->name, strlen(item->name));
    if (e) {
        e->flags = 0;
        if (e->inode && e->inode->dir)
            tree_purge_below(f, e->inode);
        entry_unbind(f, e);
        entry_tidy(f, e);
    }
    tree_unlock(f);
    if (is_dir)
        handle_drop(f, item->inode, LAYER_DELTA);
    if (!f->hands_over || item->flags & ENTRY_UP)
        numbers_note(f, item->dir, item->name, 0);
    news_add_name(f, news, item->dir, item->name, false);
}

static void forget_one(struct fence *f, const struct held_item *item, struct news *news)
{
    struct stat base;
    bool in_base = stat_base(f, item->path, &base), was_there = item->flags & ENTRY_UP;
    bool splits = item->inode && !item->is_dir && is_one_of_several(f, item->inode);
    bool stays = item->inode && !item->is_dir && was_there && !splits && in_base && fits(item->inode, &base);

    if (stays)
        file_becomes_base(f, item, &base, news);
    else
        lose_name(f, item, news);
    quota_give(&f->quota, splits || (item->lives_on && !stays) ? 0 : item->bytes, item->flags ? 1 : 0);
    if (item->lives_on && !splits && !stays)
        quota_add_dead(&f->quota, (int64_t) item->bytes);
    else if (item->lives_on)
        handle_drop(f, item->inode, LAYER_DELTA);
    origin_forget(f, item->path);
    if (was_there != in_base && renew_sight_of(f, item->dir, item->name) == SIGHT_FULL)
        renew_touch(f, item->dir);
    news_add_listing(f, news, item->dir);
}

void held_forget(struct fence *f, const struct held_items *items, struct news *news)
{
    autofree bool *done = xalloc(items->count + 1);

    for (size_t i = 0; i < items->count; i++)
        done[i] = items->items[i].is_dir && dir_becomes_base(f, &items->items[i], news);
    for (size_t i = items->count; i-- > 0;) {
        if (!done[i])
            forget_one(f, &items->items[i], news);
    }
    if (items->count > 0)
        passages_forget(f);
}

/* ---- the way there ---- */

/* Markers that came to be in a directory when it was opened. */
static void load_markers(struct fence *f, struct inode *dir, int fd)
{
    autodirectory names = directory_open(fd);
    autoptr(place) at = inode_dup_place(f, dir);
    char name[NAME_MAX + 1];

    for (const struct dirent *d; at && (d = directory_next(names));) {
        if (!whiteout_is_reserved(d->d_name) || whiteout_target(fd, d->d_name, name) <= 0)
            continue;
        size_t len = strlen(name);
        struct place *place = ruleset_step(f->rules, at, name, len);
        tree_lock(f);
        struct entry *e = entry_find(dir, name, len);
        if (!e)
            e = entry_add(f, dir, name, len, place_ref(place), inode_number_of(dir->ino, name, len));
        bool is_new = !(e->flags & ENTRY_WHITEOUT);
        e->flags |= ENTRY_WHITEOUT;
        tree_unlock(f);
        place_unref(place);
        if (is_new)
            quota_add(&f->quota, 0, 1);
    }
}

/* The delta has a directory under the name now, where it was deleted or hidden; or one that was there shows the base. */
static struct inode *follow_opened(struct fence *f, struct inode *dir, const char *path, const char *name, struct news *news)
{
    autofd int fd = path_open_beneath(f->data_fd, path, O_RDONLY | O_DIRECTORY, 0);
    autoptr(place) at = inode_dup_place(f, dir);
    autoptr(place) place = at ? ruleset_step(f->rules, at, name, strlen(name)) : NULL;
    struct inode *inode = NULL;
    bool was_up;

    if (fd < 0 || !place)
        return NULL;
    tree_lock(f);
    struct entry *e = entry_find(dir, name, strlen(name));
    if (!e)
        e = entry_add(f, dir, name, strlen(name), place_ref(place), inode_number_of(dir->ino, name, strlen(name)));
    was_up = e->flags & ENTRY_UP;
    quota_add(&f->quota, 0, e->flags ? 0 : 1);
    e->flags = ENTRY_UP;
    e->type = DT_DIR;
    tree_unlock(f);
    if (resolve_name(f, dir, name, place, false, &inode, NULL) < 0)
        return NULL;
    renew_merged(f, dir, inode, name);
    load_markers(f, inode, fd);
    if (!was_up) {
        renew_touch(f, dir);
        news_add_name(f, news, dir, name, false);
        news_add_listing(f, news, dir);
    }
    return inode;
}

/* One that was opened and went at once, because nothing was left in it. Its name may have been deleted before. */
static void follow_opened_and_gone(struct fence *f, struct inode *dir, const char *name, struct news *news)
{
    bool was_deleted = false;

    tree_lock(f);
    struct entry *e = entry_find(dir, name, strlen(name));
    if (e && (e->flags & ENTRY_WHITEOUT)) {
        was_deleted = true;
        e->flags = 0;
        entry_tidy(f, e);
    } else if (e && e->inode) {
        inode_set(e->inode, INODE_BASE);
    }
    tree_unlock(f);
    if (!was_deleted)
        return;
    quota_give(&f->quota, 0, 1);
    renew_touch(f, dir);
    news_add_name(f, news, dir, name, false);
    news_add_listing(f, news, dir);
}

/* [a reference] */
static struct inode *step(struct fence *f, struct inode *dir, const char *name)
{
    struct inode *inode = NULL;

    tree_lock(f);
    const struct entry *e = entry_find(dir, name, strlen(name));
    if (e && e->inode && e->inode->dir) {
        inode = e->inode;
        inode_ref(inode);
    }
    tree_unlock(f);
    return inode;
}

void held_follow_gone(struct fence *f, const char *path, size_t gone_from, struct news *news)
{
    struct inode *dir = f->root;

    tree_lock(f);
    inode_ref(dir);
    tree_unlock(f);
    for (size_t from = 0, len = strcspn(path, "/"); dir && path[len]; from = len + 1, len += 1 + strcspn(path + len + 1, "/")) {
        autofree char *here = xdupn(path, len);
        struct inode *next = step(f, dir, here + from);
        struct held_item item = { .dir = dir, .inode = next, .path = here, .name = here + from, .is_dir = true };

        tree_lock(f);
        struct entry *e = entry_find(dir, here + from, len - from);
        item.flags = e ? e->flags : 0;
        tree_unlock(f);
        if (len >= gone_from && item.flags && !dir_becomes_base(f, &item, news))
            forget_one(f, &item, news);
        inode_unref(f, dir);
        dir = next;
    }
    inode_unref(f, dir);
}

void held_follow_opened(struct fence *f, const char *path, const struct drop_trace *trace, struct news *news)
{
    struct inode *dir = f->root;

    tree_lock(f);
    inode_ref(dir);
    tree_unlock(f);
    for (size_t from = 0, len = strcspn(path, "/"); dir && path[len]; from = len + 1, len += 1 + strcspn(path + len + 1, "/")) {
        autofree char *here = xdupn(path, len);
        bool is_opened = trace->opened_from != DROP_NONE && len >= trace->opened_from;
        bool is_gone = trace->gone_from != DROP_NONE && len >= trace->gone_from;
        struct inode *next;

        if (is_opened && is_gone)
            follow_opened_and_gone(f, dir, here + from, news);
        next = is_opened && !is_gone ? follow_opened(f, dir, here, here + from, news) : step(f, dir, here + from);
        inode_unref(f, dir);
        dir = next;
    }
    if (dir && trace->opened_from != DROP_NONE) {
        const char *slash = strrchr(path, '/');
        renew_touch(f, dir);
        news_add_name(f, news, dir, slash ? slash + 1 : path, false);
        news_add_listing(f, news, dir);
    }
    inode_unref(f, dir);
}

/* One of several names becomes a file of its own. */
static void split(struct fence *f, struct inode *dir, const char *name)
{
    uint64_t ino;

    tree_lock(f);
    struct entry *e = entry_find(dir, name, strlen(name));
    ino = inode_number_new(f);
    if (e) {
        entry_unbind(f, e);
        e->ino = ino;
    }
    tree_unlock(f);
    numbers_note(f, dir, name, ino);
}

void held_replaced(struct fence *f, const char *path, struct news *news)
{
    struct inode *inode = NULL;
    const char *name;

    tree_lock(f);
    struct inode *dir = find_parent(f, path, &name);
    const struct entry *e = dir ? entry_find(dir, name, strlen(name)) : NULL;
    if (dir)
        inode_ref(dir);
    if (e && e->inode && !e->inode->dir) {
        inode = e->inode;
        inode_ref(inode);
    }
    tree_unlock(f);
    if (inode && is_one_of_several(f, inode)) {
        split(f, dir, name);
        news_add_name(f, news, dir, name, false);
    } else if (inode) {
        handle_drop(f, inode, LAYER_DELTA);
        news_add_pages(f, news, inode);
    }
    inode_unref(f, inode);
    inode_unref(f, dir);
}
