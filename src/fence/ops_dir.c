#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "fence/attr.h"
#include "fence/blind.h"
#include "fence/foresight.h"
#include "fence/guard.h"
#include "fence/inode.h"
#include "fence/merge.h"
#include "fence/ops.h"
#include "fence/resolve.h"

/* "." and ".." come first and carry no lookup: the kernel does not count them. */
static bool add_dots(struct fence *f, struct inode *dir, uint64_t after, bool with_attrs, dir_add_fn add, void *user)
{
    struct entry_answer answer = { 0 };
    uint64_t up;

    tree_lock(f);
    up = dir == f->root || inode_has(dir, INODE_DEAD) ? dir->ino : dir->names->parent->ino;
    tree_unlock(f);
    answer.st.st_ino = dir->ino;
    answer.st.st_mode = S_IFDIR;
    if (after < COOKIE_DOT && !add(".", dir->ino, DT_DIR, COOKIE_DOT, with_attrs ? &answer : NULL, user))
        return false;
    answer.st.st_ino = up;
    return after >= COOKIE_DOTDOT || add("..", up, DT_DIR, COOKIE_DOTDOT, with_attrs ? &answer : NULL, user);
}

/* A name without attributes: the kernel then asks for them if it wants them. */
static bool add_bare(const struct listed *item, dir_add_fn add, void *user)
{
    const struct entry_answer answer = { .st = { .st_ino = item->ino, .st_mode = DTTOIF(item->type) } };

    return add(item->name, item->ino, item->type, item->cookie, &answer, user);
}

/* One name with its attributes. 1: added, 0: it is no more, -1: no room. */
static int add_looked_up(struct fence *f, struct inode *dir, struct place *at, const struct listed *item, dir_add_fn add,
                         void *user)
{
    autoptr(place) place = ruleset_step(f->rules, at, item->name, strlen(item->name));
    bool hidden = need_check(NEED_LIST, place_level(place), false) < 0;
    struct entry_answer answer = { .entry_timeout_s = hidden ? TIMEOUT_HIDDEN_S : blind_name_timeout_s(f, dir) };
    struct inode *inode;
    bool added;

    if (resolve_name(f, dir, item->name, place, hidden, &inode, &answer.st) < 0)
        return 0;
    /* Whose pages are to be dropped first is asked for by name. */
    if (inode_has(inode, INODE_STALE)) {
        inode_unref(f, inode);
        return add_bare(item, add, user) ? 1 : -1;
    }
    answer.inode = inode;
    answer.attr_timeout_s = blind_attr_timeout_s(f, inode);
    tree_lock(f);
    inode_looked_up(f, inode);
    tree_unlock(f);
    added = add(item->name, inode->ino, (uint8_t) IFTODT(answer.st.st_mode), item->cookie, &answer, user);
    tree_lock(f);
    if (!added)
        inode->lookups--;
    inode_unref_locked(f, inode);
    tree_unlock(f);
    return added ? 1 : -1;
}

/* Whether the kernel has it, with attributes that nothing but an invalidation changes. A program that has looked at every file, and lists
 * the directories afterwards as git does, would have them all looked up again. */
static bool is_known(struct fence *f, const struct inode *dir, const struct listed *item)
{
    const struct entry *e;
    bool known;

    if (blind_any(f))
        return false;
    tree_lock(f);
    e = entry_find(dir, item->name, strlen(item->name));
    known = e && e->inode && e->inode->lookups > 0 && !inode_has(e->inode, INODE_UP);
    tree_unlock(f);
    return known;
}

static bool wants_attrs(struct fence *f, const struct inode *dir, const struct listed *item)
{
    if (inode_has(dir, INODE_BARE) && item->type != DT_DIR && item->type != DT_UNKNOWN)
        return false;
    return !is_known(f, dir, item);
}

static void add_items(struct fence *f, struct inode *dir, const struct listing *listing, uint64_t after, bool with_attrs,
                      dir_add_fn add, void *user)
{
    autoptr(place) at = inode_dup_place(f, dir);

    for (size_t i = listing_after(listing, after); at && i < listing->count; i++) {
        const struct listed *item = &listing->items[i];
        if (!with_attrs) {
            if (!add(item->name, item->ino, item->type, item->cookie, NULL, user))
                return;
        } else if (!wants_attrs(f, dir, item)) {
            if (!add_bare(item, add, user))
                return;
        } else if (add_looked_up(f, dir, at, item, add, user) < 0) {
            return;
        }
    }
}

/* When a reader came to the end, a snapshot has done its work: the kernel keeps its own. */
static void drop_snapshot(struct fence *f, struct inode *dir)
{
    struct listing *old;

    tree_lock(f);
    old = dir->dir->listing;
    dir->dir->listing = NULL;
    tree_unlock(f);
    listing_unref(old);
}

int op_readdir(struct fence *f, const struct caller *who, struct inode *dir, uint64_t after, bool with_attrs, dir_add_fn add,
               void *user)
{
    struct listing *listing;
    int r = guard_inode(f, NEED_LIST, dir, who);

    if (r < 0)
        return r;
    if (!inode_is_dir(dir))
        return -ENOTDIR;
    blind_check(f, dir);
    if (!add_dots(f, dir, after, with_attrs, add, user))
        return 0;
    if (with_attrs && after == 0)
        foresight_begin(f, dir);
    r = merge_list(f, dir, after > COOKIE_DOTDOT, &listing);
    if (r < 0)
        return r;
    add_items(f, dir, listing, after, with_attrs, add, user);
    if (listing_after(listing, after) == listing->count) {
        drop_snapshot(f, dir);
        blind_served(f, dir);
    }
    listing_unref(listing);
    return 0;
}
