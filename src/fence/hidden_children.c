#include "fence/hidden_children.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/mem.h"
#include "fence/handle.h"
#include "fence/inode.h"
#include "fence/quota.h"
#include "fence/remove.h"

struct hidden_child {
    struct inode *dir, *inode; /* a reference of ours to each; inode NULL if not loaded */
    char *name;                /* owned */
};

struct children_walk {
    struct inode *top;
    struct hidden_child *items; /* owned */
    size_t count, cap;
    int64_t names;
};

static bool entry_is_below(const struct inode *top, const struct entry *e)
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
        if (!entry_is_below(top, name))
            return false;
    }
    return true;
}

static void collect_child(struct fence *f, struct entry *e, void *cookie)
{
    struct children_walk *c = cookie;

    (void) f;
    c->names += e->flags & (ENTRY_UP | ENTRY_WHITEOUT) ? 1 : 0;
    if (!(e->flags & ENTRY_UP) || (e->inode && !goes_by_this_name(c->top, e)))
        return;
    vec_room(&c->items, &c->cap, c->count);
    c->items[c->count++] = (struct hidden_child){ e->parent, e->inode, xdupn(e->name, e->len) };
    inode_ref(e->parent);
    if (e->inode)
        inode_ref(e->inode);
}

static void keep_or_count(struct fence *f, const struct hidden_child *item, struct hidden_children *ret)
{
    struct handle *h;
    struct stat st;

    if (handle_get(f, item->dir, LAYER_DELTA, &h) < 0)
        return;
    /* An open file is kept, and so are its bytes. */
    if (item->inode && S_ISREG(atomic_load(&item->inode->mode)) &&
        remove_keep_content(f, item->inode, h->fd, item->name) == 0) {
        tree_lock(f);
        inode_list_add(&ret->kept, item->inode);
        tree_unlock(f);
    } else if (fstatat(h->fd, item->name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        ret->bytes += quota_bytes_of(&st);
    }
    handle_put(f, h);
}

void hidden_children_collect(struct fence *f, struct inode *dir, struct hidden_children *ret)
{
    struct children_walk c = { .top = dir };

    *ret = HIDDEN_CHILDREN_NONE;
    if (!dir || !dir->dir)
        return;
    tree_lock(f);
    tree_each_below(f, dir, collect_child, &c);
    tree_unlock(f);
    ret->names = c.names;
    for (size_t i = 0; i < c.count; i++) {
        keep_or_count(f, &c.items[i], ret);
        inode_unref(f, c.items[i].dir);
        inode_unref(f, c.items[i].inode);
        free(c.items[i].name);
    }
    free(c.items);
}

void hidden_children_release(struct fence *f, const struct hidden_children *hidden)
{
    quota_release(&f->quota, hidden->bytes, (uint64_t) hidden->names);
    for (size_t i = 0; i < hidden->kept.count; i++)
        remove_count_dead(f, hidden->kept.items[i]);
}

void hidden_children_done(struct fence *f, struct hidden_children *hidden)
{
    inode_list_done(f, &hidden->kept);
    *hidden = HIDDEN_CHILDREN_NONE;
}
