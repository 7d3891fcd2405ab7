#include "fence/revert_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/directory.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/attr.h"
#include "fence/base_origin.h"
#include "fence/base_stamp.h"
#include "fence/base_watch.h"
#include "fence/casefold.h"
#include "fence/handle.h"
#include "fence/ino_map.h"
#include "fence/inode.h"
#include "fence/layer.h"
#include "fence/passage.h"
#include "fence/quota.h"
#include "fence/remove.h"
#include "fence/resolve.h"
#include "fence/revalidate.h"
#include "fence/whiteout.h"

/* ---- collecting ---- */

void revert_items_done(struct fence *f, struct revert_items *items)
{
    for (size_t i = 0; i < items->count; i++) {
        inode_unref(f, items->items[i].dir);
        inode_unref(f, items->items[i].inode);
        free(items->items[i].path);
    }
    free(items->items);
    *items = (struct revert_items){ 0 };
}

/* [locked] DEPTH_MAX bounds the recursion. */
static void revert_items_add_below(struct revert_items *items, struct inode *dir, const struct entry *e, const char *parent)
{
    struct revert_item *item;
    struct inode *sub = e->inode && e->inode->dir ? e->inode : NULL;
    bool is_dir = (e->flags & ENTRY_UP) && (sub || e->type == DT_DIR);
    char *path = *parent ? xprintf("%s/%s", parent, e->name) : xdup(e->name);

    vec_room(&items->items, &items->cap, items->count);
    item = &items->items[items->count++];
    *item = (struct revert_item){ .dir = dir, .inode = e->inode, .path = path, .flags = e->flags };
    item->name = path + strlen(path) - e->len;
    item->is_dir = is_dir;
    inode_ref(dir);
    if (e->inode)
        inode_ref(e->inode);
    for (const struct entry *in = is_dir && sub ? entry_next(sub, NULL) : NULL; in; in = entry_next(sub, in)) {
        if (in->flags)
            revert_items_add_below(items, sub, in, path);
    }
}

/* [locked] The directory that holds the last name of the path, or NULL if it is not loaded. */
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

static bool is_same_type(const struct inode *inode, const struct stat *base)
{
    return (base->st_mode & S_IFMT) == (atomic_load(&inode->mode) & S_IFMT);
}

/* An open file goes on with its content, unless the base's takes its place. */
static void revert_item_keep_content(struct fence *f, struct revert_item *item)
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
        (layer_stat_base(f, item->path, &base) && is_same_type(item->inode, &base)))
        return;
    if (!inode_has_several_names(f, item->inode)) {
        item->lives_on = inode_has(item->inode, INODE_ORPHAN) || remove_keep_open(f, item->inode, dir, name) == 0;
    } else if (handle_get(f, item->inode, LAYER_DELTA, &h) == 0) {
        /* Its other names may be about to leave as well. */
        item->lives_on = handle_pin(f, item->inode, LAYER_DELTA);
        handle_put(f, h);
    }
}

void revert_tree_collect(struct fence *f, const char *path, struct revert_items *items)
{
    size_t first = items->count, len = strlen(path);
    const char *name;

    tree_lock(f);
    struct inode *dir = find_parent(f, path, &name);
    const struct entry *e = dir && strlen(name) <= NAME_MAX ? entry_find(dir, name, strlen(name)) : NULL;
    if (e && e->flags) {
        autofree char *parent = xdupn(path, len - strlen(name) - (name > path));
        revert_items_add_below(items, dir, e, parent);
    }
    tree_unlock(f);
    for (size_t i = first; i < items->count; i++)
        revert_item_keep_content(f, &items->items[i]);
}

/* ---- forgetting ---- */

/* The base has a directory there: the inode stays and becomes the base's. */
static bool dir_becomes_base(struct fence *f, const struct revert_item *item, struct inval_batch *batch)
{
    struct inode *inode = item->inode;
    struct stat base;

    if (!inode || !layer_stat_base(f, item->path, &base) || !S_ISDIR(base.st_mode) || !inode_has(item->dir, INODE_BASE))
        return false;
    /* Names that are cached as absent may exist now. */
    batch->is_wide |= !inode_has(inode, INODE_BASE);
    handle_evict(f, inode, LAYER_DELTA);
    handle_evict(f, inode, LAYER_BASE);
    tree_lock(f);
    struct entry *e = entry_find(item->dir, item->name, strlen(item->name));
    if (e)
        e->flags = 0;
    inode->dir->moved_ns = 0;
    inode->dir->version++;
    inode_set(inode, INODE_BASE);
    inode_clear(inode, INODE_UP | INODE_FRESH);
    atomic_store(&inode->mode, (uint16_t) (base.st_mode & (S_IFMT | 01777)));
    atomic_store(&inode->base_stamp, base_stamp_of(&base));
    int64_t mtime_ns = inode->dir->mtime_ns;
    tree_unlock(f);
    if (f->syncs_out)
        ino_map_keep_time(f, inode->ino, mtime_ns);
    base_watch_add(f, inode, &base);
    quota_release(&f->quota, 0, item->flags ? 1 : 0);
    base_origin_forget(f, item->path);
    inval_batch_add_name(f, batch, item->dir, item->name, true);
    inval_batch_add_listing(f, batch, inode);
    return true;
}

static void file_becomes_base(struct fence *f, const struct revert_item *item, const struct stat *base,
                              struct inval_batch *batch)
{
    struct inode *inode = item->inode;

    handle_evict(f, inode, LAYER_DELTA);
    tree_lock(f);
    struct entry *e = entry_find(item->dir, item->name, strlen(item->name));
    if (e)
        e->flags = 0;
    inode_set(inode, INODE_BASE);
    inode_clear(inode, INODE_UP | INODE_FRESH | INODE_LINKED);
    atomic_store(&inode->mode, (uint16_t) (base->st_mode & (S_IFMT | 01777)));
    atomic_store(&inode->base_stamp, base_stamp_of(base));
    inode->log_mark = 0;
    tree_unlock(f);
    /* The kernel caches a symlink's target with its name. */
    if (S_ISLNK(base->st_mode))
        inval_batch_add_name(f, batch, item->dir, item->name, false);
    inval_batch_add_pages(f, batch, inode);
}

static void revert_item_lose_name(struct fence *f, const struct revert_item *item, struct inval_batch *batch)
{
    bool is_dir = item->inode && inode_is_dir(item->inode);

    tree_lock(f);
    struct entry *e = inode_has(item->dir, INODE_DEAD) ? NULL : entry_find(item->dir, item->name, strlen(item->name));
    if (e) {
        e->flags = 0;
        if (e->inode && e->inode->dir)
            tree_purge_below(f, e->inode);
        entry_unbind(f, e);
        entry_free_unused(f, e);
    }
    tree_unlock(f);
    if (is_dir)
        handle_evict(f, item->inode, LAYER_DELTA);
    if (!f->syncs_out || item->flags & ENTRY_UP)
        ino_map_set(f, item->dir, item->name, 0);
    inval_batch_add_name(f, batch, item->dir, item->name, false);
}

static void revert_item_forget(struct fence *f, const struct revert_item *item, struct inval_batch *batch)
{
    struct stat base;
    bool in_base = layer_stat_base(f, item->path, &base), was_there = item->flags & ENTRY_UP;
    bool splits = item->inode && !item->is_dir && inode_has_several_names(f, item->inode);
    bool stays = item->inode && !item->is_dir && was_there && !splits && in_base && is_same_type(item->inode, &base);

    if (stays)
        file_becomes_base(f, item, &base, batch);
    else
        revert_item_lose_name(f, item, batch);
    quota_release(&f->quota, splits || (item->lives_on && !stays) ? 0 : item->bytes, item->flags ? 1 : 0);
    if (item->lives_on && !splits && !stays)
        quota_add_dead(&f->quota, (int64_t) item->bytes);
    else if (item->lives_on)
        handle_evict(f, item->inode, LAYER_DELTA);
    base_origin_forget(f, item->path);
    if (was_there != in_base && revalidate_visibility(f, item->dir, item->name) == VISIBILITY_FULL)
        revalidate_touch(f, item->dir);
    inval_batch_add_listing(f, batch, item->dir);
}

void revert_tree_forget(struct fence *f, const struct revert_items *items, struct inval_batch *batch)
{
    autofree bool *done = xalloc(items->count + 1);

    for (size_t i = 0; i < items->count; i++)
        done[i] = items->items[i].is_dir && dir_becomes_base(f, &items->items[i], batch);
    for (size_t i = items->count; i-- > 0;) {
        if (!done[i])
            revert_item_forget(f, &items->items[i], batch);
    }
    if (items->count > 0)
        passages_forget(f);
}

/* ---- directories above ---- */

/* Loads the markers that were made in a directory when it was opened. */
static void load_markers(struct fence *f, struct inode *dir, int fd)
{
    autodirectory names = directory_open(fd);
    autoptr(match_state) at = inode_dup_match_state(f, dir);
    char name[NAME_MAX + 1];

    for (const struct dirent *d; at && (d = directory_next(names));) {
        if (!whiteout_is_reserved(d->d_name) || whiteout_target(fd, d->d_name, name) <= 0)
            continue;
        size_t len = strlen(name);
        struct match_state *match = ruleset_step(f->rules, at, name, len);
        tree_lock(f);
        struct entry *e = entry_find(dir, name, len);
        if (!e)
            e = entry_add(dir, name, len, match_state_ref(match), inode_number_of(dir->ino, name, len));
        bool is_new = !(e->flags & ENTRY_WHITEOUT);
        e->flags |= ENTRY_WHITEOUT;
        tree_unlock(f);
        match_state_unref(match);
        if (is_new)
            quota_add(&f->quota, 0, 1);
    }
}

/* The delta has a directory under the name that was deleted or hidden before; or an existing one shows the base now. */
static struct inode *revert_update_opened(struct fence *f, struct inode *dir, const char *path, const char *name,
                                          struct inval_batch *batch)
{
    autofd int fd = path_open_beneath(f->data_fd, path, O_RDONLY | O_DIRECTORY, 0);
    autoptr(match_state) at = inode_dup_match_state(f, dir);
    autoptr(match_state) match = at ? ruleset_step(f->rules, at, name, strlen(name)) : NULL;
    struct inode *inode = NULL;
    bool was_up;

    if (fd < 0 || !match)
        return NULL;
    tree_lock(f);
    struct entry *e = entry_find(dir, name, strlen(name));
    if (!e)
        e = entry_add(dir, name, strlen(name), match_state_ref(match), inode_number_of(dir->ino, name, strlen(name)));
    was_up = e->flags & ENTRY_UP;
    quota_add(&f->quota, 0, e->flags ? 0 : 1);
    e->flags = ENTRY_UP;
    e->type = DT_DIR;
    tree_unlock(f);
    if (resolve_name(f, dir, name, match, false, &inode, NULL) < 0)
        return NULL;
    revalidate_merged(f, dir, inode, name);
    load_markers(f, inode, fd);
    if (!was_up) {
        revalidate_touch(f, dir);
        inval_batch_add_name(f, batch, dir, name, false);
        inval_batch_add_listing(f, batch, dir);
    }
    return inode;
}

/* A directory that was opened and removed at once, because nothing was left in it. Its name may have been deleted before. */
static void update_opened_and_removed(struct fence *f, struct inode *dir, const char *name, struct inval_batch *batch)
{
    bool was_deleted = false;

    tree_lock(f);
    struct entry *e = entry_find(dir, name, strlen(name));
    if (e && (e->flags & ENTRY_WHITEOUT)) {
        was_deleted = true;
        e->flags = 0;
        entry_free_unused(f, e);
    } else if (e && e->inode) {
        inode_set(e->inode, INODE_BASE);
    }
    tree_unlock(f);
    if (!was_deleted)
        return;
    quota_release(&f->quota, 0, 1);
    revalidate_touch(f, dir);
    inval_batch_add_name(f, batch, dir, name, false);
    inval_batch_add_listing(f, batch, dir);
}

/* Returns a reference to the directory of that name, or NULL. */
static struct inode *dup_child_dir(struct fence *f, struct inode *dir, const char *name)
{
    struct inode *inode = entry_dup_inode(f, dir, name);

    if (!inode || inode->dir)
        return inode;
    inode_unref(f, inode);
    return NULL;
}

void revert_tree_update_removed(struct fence *f, const char *path, size_t removed_from, struct inval_batch *batch)
{
    struct inode *dir = inode_dup(f, f->root);

    for (size_t from = 0, len = strcspn(path, "/"); dir && path[len]; from = len + 1, len += 1 + strcspn(path + len + 1, "/")) {
        autofree char *here = xdupn(path, len);
        struct inode *next = dup_child_dir(f, dir, here + from);
        struct revert_item item = { .dir = dir, .inode = next, .path = here, .name = here + from, .is_dir = true };

        tree_lock(f);
        struct entry *e = entry_find(dir, here + from, len - from);
        item.flags = e ? e->flags : 0;
        tree_unlock(f);
        if (len >= removed_from && item.flags && !dir_becomes_base(f, &item, batch))
            revert_item_forget(f, &item, batch);
        inode_unref(f, dir);
        dir = next;
    }
    inode_unref(f, dir);
}

void revert_tree_update_opened(struct fence *f, const char *path, const struct revert_trace *trace, struct inval_batch *batch)
{
    struct inode *dir = inode_dup(f, f->root);

    for (size_t from = 0, len = strcspn(path, "/"); dir && path[len]; from = len + 1, len += 1 + strcspn(path + len + 1, "/")) {
        autofree char *here = xdupn(path, len);
        bool is_opened = trace->opened_from != REVERT_NONE && len >= trace->opened_from;
        bool is_gone = trace->removed_from != REVERT_NONE && len >= trace->removed_from;
        struct inode *next;

        if (is_opened && is_gone)
            update_opened_and_removed(f, dir, here + from, batch);
        next =
            is_opened && !is_gone ? revert_update_opened(f, dir, here, here + from, batch) : dup_child_dir(f, dir, here + from);
        inode_unref(f, dir);
        dir = next;
    }
    if (dir && trace->opened_from != REVERT_NONE) {
        const char *slash = strrchr(path, '/');
        revalidate_touch(f, dir);
        inval_batch_add_name(f, batch, dir, slash ? slash + 1 : path, false);
        inval_batch_add_listing(f, batch, dir);
    }
    inode_unref(f, dir);
}

/* Makes one of several names a file of its own. */
static void split_hard_link(struct fence *f, struct inode *dir, const char *name)
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
    ino_map_set(f, dir, name, ino);
}

void revert_tree_replaced(struct fence *f, const char *path, struct inval_batch *batch)
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
    if (inode && inode_has_several_names(f, inode)) {
        split_hard_link(f, dir, name);
        inval_batch_add_name(f, batch, dir, name, false);
    } else if (inode) {
        handle_evict(f, inode, LAYER_DELTA);
        inval_batch_add_pages(f, batch, inode);
    }
    inode_unref(f, inode);
    inode_unref(f, dir);
}
