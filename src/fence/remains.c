#include "fence/remains.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/mem.h"
#include "fence/handle.h"
#include "fence/inode.h"
#include "fence/quota.h"
#include "fence/remove.h"

struct leftover {
    struct inode *dir, *inode; /* a reference of ours to each; inode NULL while not loaded */
    char *name;                /* owned */
};

struct collecting {
    struct inode *top;
    struct leftover *items; /* owned */
    size_t count, cap;
    int64_t names;
};

static bool is_below(const struct inode *top, const struct entry *e)
{
    const struct inode *dir = e->parent;

    while (dir != top && !inode_has(dir, INODE_DEAD) && dir->names)
        dir = dir->names->parent;
    return dir == top;
}

/* A file with a name elsewhere stays, and one with several names here goes once. */
static bool goes_by_this_name(const struct inode *top, const struct entry *e)
{
    if (e->inode->dir || e->inode->names != e)
        return false;
    for (const struct entry *name = e->name_next; name; name = name->name_next) {
        if (!is_below(top, name))
            return false;
    }
    return true;
}

static void on_name(struct fence *f, struct entry *e, void *cookie)
{
    struct collecting *c = cookie;

    (void) f;
    c->names += e->flags & (ENTRY_UP | ENTRY_WHITEOUT) ? 1 : 0;
    if (!(e->flags & ENTRY_UP) || (e->inode && !goes_by_this_name(c->top, e)))
        return;
    vec_room(&c->items, &c->cap, c->count);
    c->items[c->count++] = (struct leftover){ e->parent, e->inode, xdupn(e->name, e->len) };
    inode_ref(e->parent);
    if (e->inode)
        inode_ref(e->inode);
}

/* Who has it open keeps it, and its bytes with it. */
static bool keep(struct fence *f, struct inode *inode, int dirfd, const char *name)
{
    return inode && S_ISREG(atomic_load(&inode->mode)) && remove_keep_content(f, inode, dirfd, name) == 0;
}

static void look_at(struct fence *f, const struct leftover *item, struct remains *ret)
{
    struct handle *h;
    struct stat st;

    if (handle_get(f, item->dir, LAYER_DELTA, &h) < 0)
        return;
    if (keep(f, item->inode, h->fd, item->name)) {
        vec_room(&ret->kept, &ret->kept_cap, ret->kept_count);
        ret->kept[ret->kept_count++] = item->inode;
        tree_lock(f);
        inode_ref(item->inode);
        tree_unlock(f);
    } else if (fstatat(h->fd, item->name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        ret->bytes += quota_bytes_of(&st);
    }
    handle_put(f, h);
}

void remains_collect(struct fence *f, struct inode *dir, struct remains *ret)
{
    struct collecting c = { .top = dir };

    *ret = REMAINS_NONE;
    if (!dir || !dir->dir)
        return;
    tree_lock(f);
    tree_each_below(f, dir, on_name, &c);
    tree_unlock(f);
    ret->names = c.names;
    for (size_t i = 0; i < c.count; i++) {
        look_at(f, &c.items[i], ret);
        inode_unref(f, c.items[i].dir);
        inode_unref(f, c.items[i].inode);
        free(c.items[i].name);
    }
    free(c.items);
}

void remains_give_back(struct fence *f, const struct remains *remains)
{
    quota_give(&f->quota, remains->bytes, (uint64_t) remains->names);
    for (size_t i = 0; i < remains->kept_count; i++)
        remove_count_dead(f, remains->kept[i]);
}

void remains_done(struct fence *f, struct remains *remains)
{
    for (size_t i = 0; i < remains->kept_count; i++)
        inode_unref(f, remains->kept[i]);
    free(remains->kept);
    *remains = REMAINS_NONE;
}
