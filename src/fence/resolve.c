#include "fence/resolve.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "fence/attr.h"
#include "fence/base_stamp.h"
#include "fence/base_watch.h"
#include "fence/handle.h"
#include "fence/ino_map.h"
#include "fence/inode.h"
#include "fence/layer.h"
#include "fence/passage.h"
#include "fence/unwatched.h"
#include "fence/whiteout.h"

#define DETACH_TRIES 100

/* What memory knows of a name. */
struct memory_entry {
    struct inode *inode; /* a reference, if loaded */
    uint8_t flags;
    uint64_t ino;
};

static struct memory_entry find_in_memory(struct fence *f, struct inode *dir, const char *name)
{
    struct memory_entry known = { 0 };

    tree_lock(f);
    const struct entry *e = entry_find(dir, name, strlen(name));
    if (e) {
        known = (struct memory_entry){ e->inode, e->flags, e->ino };
        if (e->inode)
            inode_ref(e->inode);
    }
    tree_unlock(f);
    return known;
}

/* The base has a directory of that name, and the one in the delta is not opaque. */
int resolve_merged(struct fence *f, struct inode *parent, const char *name, struct stat *ret_base)
{
    struct stat st;
    struct handle *h;
    char marker[NAME_MAX + 32];
    int r = layer_base_has(f, parent, name, ret_base);

    if (r <= 0 || !S_ISDIR(ret_base->st_mode))
        return r < 0 ? r : INODE_UP;
    r = handle_get(f, parent, LAYER_DELTA, &h);
    if (r < 0)
        return r;
    snprintf(marker, sizeof(marker), "%s/" WHITEOUT_OPAQUE, name);
    r = fstatat(h->fd, marker, &st, AT_SYMLINK_NOFOLLOW) == 0 ? INODE_UP : INODE_UP | INODE_BASE;
    handle_put(f, h);
    return r;
}

/* `ret_base` is what the base has, if that is part of the result. */
static int resolve_in_layers(struct fence *f, struct inode *dir, const char *name, const struct memory_entry *known,
                             struct stat *ret_st, struct stat *ret_base)
{
    int r;

    if (known->flags & ENTRY_WHITEOUT)
        return -ENOENT;
    if (known->flags & ENTRY_UP) {
        r = layer_stat(f, dir, LAYER_DELTA, name, ret_st);
        if (r < 0)
            return r;
        return S_ISDIR(ret_st->st_mode) ? resolve_merged(f, dir, name, ret_base) : INODE_UP;
    }
    if (!inode_has(dir, INODE_BASE))
        return -ENOENT;
    r = layer_stat(f, dir, LAYER_BASE, name, ret_st);
    if (r < 0)
        return r == -ENOTDIR ? -ENOENT : r;
    *ret_base = *ret_st;
    return INODE_BASE;
}

/* If another thread (a listing and a look-up do meet) has loaded the inode meanwhile, that one is used. */
static struct inode *load_inode(struct fence *f, struct inode *dir, const char *name, struct match_state *match, unsigned flags,
                                const struct stat *st, const struct stat *base)
{
    size_t len = strlen(name);
    uint64_t ino = ino_map_base_ino(f, dir, name, true);
    struct entry *e;
    struct inode *inode;

    tree_lock(f);
    e = entry_find(dir, name, len);
    if (!e) {
        e = entry_add(dir, name, len, match_state_ref(match), ino);
        e->type = (uint8_t) IFTODT(st->st_mode);
    }
    if (e->inode) {
        inode = e->inode;
        inode_ref(inode);
    } else {
        inode = inode_new(f, st->st_mode, e->ino, flags);
        if (inode->dir && (flags & INODE_UP)) {
            inode->dir->atime_ns = clock_ns_of_timespec(st->st_atim);
            inode->dir->mtime_ns = inode->dir->ctime_ns = clock_ns_of_timespec(st->st_mtim);
        } else if (inode->dir) {
            /* Recorded if the directory was in the delta before it was synced to the base. */
            int64_t kept_ns = ino_map_time_of(f, inode->ino);
            if (kept_ns > 0)
                inode->dir->atime_ns = inode->dir->mtime_ns = inode->dir->ctime_ns = kept_ns;
        }
        if (flags == INODE_BASE && S_ISREG(base->st_mode) && base->st_nlink > 1)
            inode_set(inode, INODE_MULTILINK);
        if (flags & INODE_BASE)
            atomic_store_explicit(&inode->base_stamp, base_stamp_of(base), memory_order_relaxed);
        entry_bind(e, inode);
    }
    tree_unlock(f);
    return inode;
}

/* A hidden directory that is searched, or was just found to be a passage, may meanwhile have been detached by a thread that did
 * not know yet (revalidate.c), and then the kernel is not told: so it is looked up once more. A directory that is shown is not
 * detached any more. */
static bool was_detached(struct fence *f, struct inode *inode)
{
    tree_lock(f);
    bool is_dead = inode_has(inode, INODE_DEAD);
    tree_unlock(f);
    return is_dead;
}

/* Returns 1 if was_detached(). */
static int resolve_once(struct fence *f, struct inode *dir, const char *name, struct match_state *match, bool only_as_passage,
                        struct inode **ret_inode, struct stat *ret_st)
{
    struct memory_entry known = find_in_memory(f, dir, name);
    struct inode *inode = known.inode;
    struct stat st, base;
    int r = 0;

    if (inode && !unwatched_check_name(f, dir, name, inode)) {
        inode_unref(f, inode);
        known = find_in_memory(f, dir, name);
        inode = known.inode;
    }

    /* The rules may have changed since it was found: one of its names may be hidden by now. */
    if (inode && inode_has(inode, INODE_MULTILINK) && !inode_has(inode, INODE_UP)) {
        r = layer_stat(f, dir, LAYER_BASE, name, &st);
        if (r == -ENOENT) {
            inode_unref(f, inode);
            return r;
        }
        r = 0;
    }
    if (!inode) {
        if (dir->depth >= DEPTH_MAX)
            return -ENAMETOOLONG;
        int flags = resolve_in_layers(f, dir, name, &known, &st, &base);
        if (flags < 0)
            return flags;
        if (only_as_passage && !S_ISDIR(st.st_mode))
            return -ENOENT;
        inode = load_inode(f, dir, name, match, (unsigned) flags, &st, &base);
        if (inode_is_dir(inode) && inode_has(inode, INODE_BASE))
            base_watch_add(f, inode, &base);
        if (inode_is_dir(inode))
            unwatched_check(f, inode);
        if (ret_st && inode_is_dir(inode) == S_ISDIR(st.st_mode))
            attr_fill(f, inode, &st, ret_st);
    } else if (ret_st) {
        if (inode_is_dir(inode))
            unwatched_check(f, inode);
        r = attr_get(f, inode, ret_st);
    }
    if (r == 0 && only_as_passage) {
        bool shows = passage_shows(f, inode);
        if (was_detached(f, inode)) {
            inode_unref(f, inode);
            return 1;
        }
        r = shows ? 0 : -ENOENT;
    }
    if (r == 0 && only_as_passage && ret_st)
        attr_fill(f, inode, NULL, ret_st);
    if (r < 0) {
        inode_unref(f, inode);
        return r;
    }
    *ret_inode = inode;
    return 0;
}

int resolve_name(struct fence *f, struct inode *dir, const char *name, struct match_state *match, bool only_as_passage,
                 struct inode **ret_inode, struct stat *ret_st)
{
    int r = 1;

    for (int i = 0; i < DETACH_TRIES && r > 0; i++)
        r = resolve_once(f, dir, name, match, only_as_passage, ret_inode, ret_st);
    return r > 0 ? -ENOENT : r;
}
