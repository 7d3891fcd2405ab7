#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "fence/attr.h"
#include "fence/guard.h"
#include "fence/inode.h"
#include "fence/merge.h"
#include "fence/ops.h"
#include "fence/readdirplus.h"
#include "fence/resolve.h"
#include "fence/unwatched.h"

/* "." and ".." come first and carry no reference: the kernel does not count them. */
static bool listing_add_dots(struct fence *f, struct inode *dir, uint64_t after, bool with_attrs, dir_add_fn add, void *user)
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

/* Adds a name without attributes: the kernel looks it up if it wants them. */
static bool listing_add_bare(const struct dir_listing_item *item, dir_add_fn add, void *user)
{
    const struct entry_answer answer = { .st = { .st_ino = item->ino, .st_mode = DTTOIF(item->type) } };

    return add(item->name, item->ino, item->type, item->cookie, &answer, user);
}

/* Adds a name with its attributes. Returns 1 if added, 0 if it does not exist any more, -1 if the reply is full. */
static int listing_add_looked_up(struct fence *f, struct inode *dir, struct match_state *at,
                                 const struct dir_listing_item *item, dir_add_fn add, void *user)
{
    autoptr(match_state) match = ruleset_step(f->rules, at, item->name, strlen(item->name));
    bool hidden = required_level_check(POLICY_OP_LIST, match_state_level(match), false) < 0;
    struct entry_answer answer = { .entry_timeout_s = hidden ? TIMEOUT_HIDDEN_S : unwatched_name_timeout_s(f, dir) };
    struct inode *inode;
    bool added;

    if (resolve_name(f, dir, item->name, match, hidden, &inode, &answer.st) < 0)
        return 0;
    /* A stale inode is looked up by name, which first drops its pages. */
    if (inode_has(inode, INODE_STALE)) {
        inode_unref(f, inode);
        return listing_add_bare(item, add, user) ? 1 : -1;
    }
    answer.inode = inode;
    answer.attr_timeout_s = unwatched_attr_timeout_s(f, inode);
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

/* Returns true if the kernel has the inode, with attributes that only an invalidation changes. Otherwise a program that has
 * looked at every file, and then lists the directories as git does, would cause all of them to be looked up again. */
static bool kernel_knows_item(struct fence *f, const struct inode *dir, const struct dir_listing_item *item)
{
    const struct entry *e;
    bool known;

    if (unwatched_any(f))
        return false;
    tree_lock(f);
    e = entry_find(dir, item->name, strlen(item->name));
    known = e && e->inode && e->inode->lookups > 0 && !inode_has(e->inode, INODE_UP);
    tree_unlock(f);
    return known;
}

static bool item_wants_attrs(struct fence *f, const struct inode *dir, const struct dir_listing_item *item)
{
    if (inode_has(dir, INODE_LISTED_PLAIN) && item->type != DT_DIR && item->type != DT_UNKNOWN)
        return false;
    return !kernel_knows_item(f, dir, item);
}

static void listing_add_items(struct fence *f, struct inode *dir, const struct dir_listing *listing, uint64_t after,
                              bool with_attrs, dir_add_fn add, void *user)
{
    autoptr(match_state) at = inode_dup_match_state(f, dir);

    for (size_t i = dir_listing_after(listing, after); at && i < listing->count; i++) {
        const struct dir_listing_item *item = &listing->items[i];
        if (!with_attrs) {
            if (!add(item->name, item->ino, item->type, item->cookie, NULL, user))
                return;
        } else if (!item_wants_attrs(f, dir, item)) {
            if (!listing_add_bare(item, add, user))
                return;
        } else if (listing_add_looked_up(f, dir, at, item, add, user) < 0) {
            return;
        }
    }
}

int op_readdir(struct fence *f, const struct op_caller *who, struct inode *dir, uint64_t after, bool with_attrs, dir_add_fn add,
               void *user)
{
    struct dir_listing *listing;
    int r = guard_inode(f, POLICY_OP_LIST, dir, who);

    if (r < 0)
        return r;
    if (!inode_is_dir(dir))
        return -ENOTDIR;
    unwatched_check(f, dir);
    if (!listing_add_dots(f, dir, after, with_attrs, add, user))
        return 0;
    if (with_attrs && after == 0)
        readdirplus_begin(f, dir);
    r = merge_list(f, dir, after > COOKIE_DOTDOT, &listing);
    if (r < 0)
        return r;
    listing_add_items(f, dir, listing, after, with_attrs, add, user);
    if (dir_listing_after(listing, after) == listing->count) {
        /* A reader reached the end, so the snapshot has served its purpose: the kernel caches the listing itself. */
        tree_lock(f);
        struct dir_listing *old = dir->dir->listing;
        dir->dir->listing = NULL;
        tree_unlock(f);
        dir_listing_unref(old);
        unwatched_after_read(f, dir);
    }
    dir_listing_unref(listing);
    return 0;
}
