#include "fence/revalidate.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fence/base_stamp.h"
#include "fence/base_watch.h"
#include "fence/casefold.h"
#include "fence/handle.h"
#include "fence/inode.h"
#include "fence/layer.h"
#include "fence/passage.h"
#include "fence/resolve.h"
#include "fence/whiteout.h"

enum visibility revalidate_visibility(struct fence *f, struct inode *dir, const char *name)
{
    autoptr(match_state) at = inode_dup_match_state(f, dir);
    autoptr(match_state) match = at ? ruleset_step(f->rules, at, name, strlen(name)) : NULL;

    if (!match || whiteout_is_reserved(name))
        return VISIBILITY_NONE;
    if (required_level_check(POLICY_OP_LOOKUP, match_state_level(match), false) == 0)
        return VISIBILITY_FULL;
    return ruleset_may_show_below(f->rules, match) ? VISIBILITY_BELOW : VISIBILITY_NONE;
}

bool revalidate_is_shown(const struct fence *f, const struct inode *inode)
{
    return inode == f->root || atomic_load(&inode->level) != LEVEL_NONE || inode_has(inode, INODE_PASSAGE);
}

/* Under the directory's lock, so that a copy-up does not lose the name at the moment it is installed. */
static void detach_name(struct fence *f, struct inode *dir, const char *name, const struct inode *inode, bool may_be_shown)
{
    dir_lock(f, dir);
    tree_lock(f);
    struct entry *e = inode_has(dir, INODE_DEAD) ? NULL : entry_find(dir, name, strlen(name));
    if (e && e->flags == 0 && e->inode && (!inode || e->inode == inode) &&
        (may_be_shown || !revalidate_is_shown(f, e->inode))) {
        inode_ref(dir);
        tree_detach(f, e);
        entry_free_unused(f, e);
        inode_unref_locked(f, dir);
    }
    tree_unlock(f);
    dir_unlock(f, dir);
}

void revalidate_detach(struct fence *f, struct inode *dir, const char *name, const struct inode *inode)
{
    detach_name(f, dir, name, inode, true);
}

void revalidate_merged(struct fence *f, struct inode *dir, struct inode *child, const char *name)
{
    struct stat st;
    int flags = resolve_merged(f, dir, name, &st);

    handle_evict(f, child, LAYER_BASE);
    if (flags < 0)
        return;
    if (!(flags & INODE_BASE)) {
        inode_clear(child, INODE_BASE);
        return;
    }
    inode_set(child, INODE_BASE);
    atomic_store(&child->base_stamp, base_stamp_of(&st));
    base_watch_add(f, child, &st);
}

/* Not called when a passage comes or goes: a time must not reveal whether it existed before it was looked up, and what is
 * cached is dropped when something hidden changes. */
void revalidate_touch(struct fence *f, struct inode *dir)
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

static bool was_shown(struct fence *f, const struct inode *dir, const char *name, const struct inode *child)
{
    return child ? revalidate_is_shown(f, child) : passage_was_shown(f, inode_number_of(dir->ino, name, strlen(name)));
}

/* Finds out whether a hidden name leads to something visible before the kernel is told that anything changed. */
static void search_hidden_again(struct fence *f, struct inode *dir, const char *name, struct inval_batch *batch)
{
    struct inode *found;

    passages_forget_absent(f);
    if (revalidate_visibility(f, dir, name) != VISIBILITY_BELOW)
        return;
    autoptr(match_state) at = inode_dup_match_state(f, dir);
    autoptr(match_state) match = at ? ruleset_step(f->rules, at, name, strlen(name)) : NULL;
    /* Another thread may have found it to be a passage since: whoever was given that keeps it. */
    detach_name(f, dir, name, NULL, false);
    if (!match || resolve_name(f, dir, name, match, true, &found, NULL) < 0)
        return;
    inval_batch_add_name(f, batch, dir, name, true);
    inval_batch_add_listing(f, batch, dir);
    inode_unref(f, found);
}

static bool is_of_type(const struct inode *inode, mode_t mode)
{
    return (atomic_load(&inode->mode) & S_IFMT) == (mode & S_IFMT);
}

/* Returns true if the event is about a version that we have looked at since, as after fence_resume(), whose caller wrote the
 * base. Processes that have the file open then have this version. */
static bool is_known_version(struct fence *f, struct inode *dir, const char *name, const struct inode *child)
{
    struct stat st;

    return child && !inode_is_dir(child) && layer_base_has(f, dir, name, &st) == 1 && is_of_type(child, st.st_mode) &&
           !(base_stamp_differs(atomic_load(&child->base_stamp), &st) & (BASE_STAMP_OTHER_FILE | BASE_STAMP_OTHER_CONTENT));
}

static void replace_name(struct fence *f, struct inode *dir, const char *name, struct inode *child, uint8_t flags,
                         enum visibility visibility, struct inval_batch *batch)
{
    bool is_dir = child && inode_is_dir(child);

    if (flags == 0 && visibility == VISIBILITY_FULL && is_known_version(f, dir, name, child)) {
        inval_batch_add_pages(f, batch, child);
        inval_batch_add_listing(f, batch, dir);
        return;
    }
    if ((flags & ENTRY_UP) && is_dir)
        revalidate_merged(f, dir, child, name);
    else if (flags == 0)
        revalidate_detach(f, dir, name, NULL);
    if (visibility == VISIBILITY_BELOW)
        passages_forget(f);
    else
        passages_forget_absent(f);
    if (visibility == VISIBILITY_FULL && flags == 0)
        revalidate_touch(f, dir);
    inval_batch_add_name(f, batch, dir, name, is_dir);
    inval_batch_add_listing(f, batch, dir);
}

void revalidate_name(struct fence *f, struct inode *dir, const char *name, struct inval_batch *batch)
{
    enum visibility visibility = revalidate_visibility(f, dir, name);
    uint8_t flags;
    struct inode *child;

    if (visibility == VISIBILITY_NONE)
        return;
    child = child_of(f, dir, name, &flags);
    if (visibility == VISIBILITY_BELOW && !was_shown(f, dir, name, child))
        search_hidden_again(f, dir, name, batch);
    else
        replace_name(f, dir, name, child, flags, visibility, batch);
    inode_unref(f, child);
}

/* Follows a path through shown directories. Ends at the name that is its last, is not loaded or is not shown. */
static struct inode *find_last_visible(struct fence *f, const char *path, char ret_name[NAME_MAX + 1], bool *ret_is_last)
{
    struct inode *dir = f->root;

    autolock(&f->names);
    for (;;) {
        size_t len = strcspn(path, "/");
        const struct entry *e = len > 0 && len <= NAME_MAX ? entry_find(dir, path, len) : NULL;
        if (len == 0 || len > NAME_MAX)
            return NULL;
        *ret_is_last = path[len] == 0;
        if (*ret_is_last || !e || !e->inode || !revalidate_is_shown(f, e->inode)) {
            memcpy(ret_name, path, len);
            ret_name[len] = 0;
            inode_ref(dir);
            return dir;
        }
        if (!e->inode->dir)
            return NULL;
        dir = e->inode;
        path += len + 1;
    }
}

/* If the name is shown but not loaded, nothing below it was looked up. */
void revalidate_hidden(struct fence *f, const char *path, struct inval_batch *batch)
{
    char name[NAME_MAX + 1];
    bool is_last;
    uint8_t flags;
    struct inode *dir = find_last_visible(f, path, name, &is_last);
    struct inode *child = dir ? child_of(f, dir, name, &flags) : NULL;

    if (dir && !was_shown(f, dir, name, child))
        search_hidden_again(f, dir, name, batch);
    else
        passages_forget_absent(f);
    inode_unref(f, child);
    inode_unref(f, dir);
}

static void revalidate_below(struct fence *f, struct inode *dir, struct inval_batch *batch);

/* A passage stays until it is removed. If another directory took its place, it was. */
static void search_kept(struct fence *f, struct inode *dir, const char *name, struct inode *child, struct inval_batch *batch)
{
    passages_forget(f);
    inode_clear(child, INODE_PASSAGE);
    if (passage_shows(f, child))
        return;
    revalidate_detach(f, dir, name, NULL);
    inval_batch_add_name(f, batch, dir, name, true);
    inval_batch_add_listing(f, batch, dir);
}

/* The name is still a directory: the inode stays a working directory even if another one has the name now. */
static void keep_dir(struct fence *f, struct inode *dir, const char *name, struct inode *child, const struct stat *st,
                     enum visibility visibility, bool is_reported, struct inval_batch *batch)
{
    bool is_other = base_stamp_differs(atomic_load(&child->base_stamp), st) & BASE_STAMP_OTHER_FILE;

    if (inode_has(child, INODE_UP)) {
        revalidate_merged(f, dir, child, name);
    } else {
        handle_evict(f, child, LAYER_BASE);
        atomic_store(&child->base_stamp, base_stamp_of(st));
        atomic_store(&child->mode, (uint16_t) (st->st_mode & (S_IFMT | 01777)));
        if (is_other)
            base_watch_add(f, child, st);
    }
    revalidate_below(f, child, batch);
    if (visibility == VISIBILITY_BELOW && (is_other || is_reported))
        search_kept(f, dir, name, child, batch);
    else if (visibility == VISIBILITY_FULL && is_other && is_reported)
        revalidate_touch(f, dir);
}

/* Compares a loaded name with what the base has under it. `is_reported`: it is said to have changed. */
static void compare_entry(struct fence *f, struct inode *dir, const char *name, struct inode *child, enum visibility visibility,
                          bool is_reported, struct inval_batch *batch)
{
    struct stat st;
    bool is_there = layer_base_has(f, dir, name, &st) == 1;
    unsigned differs = is_there && child ? base_stamp_differs(atomic_load(&child->base_stamp), &st) : BASE_STAMP_OTHER_FILE;

    if (child && inode_is_dir(child) && is_there && S_ISDIR(st.st_mode)) {
        keep_dir(f, dir, name, child, &st, visibility, is_reported, batch);
    } else if (child && inode_has(child, INODE_UP)) {
        revalidate_merged(f, dir, child, name);
        revalidate_below(f, child, batch);
    } else if (child && !(differs & BASE_STAMP_OTHER_FILE) && is_of_type(child, st.st_mode)) {
        atomic_store(&child->base_stamp, base_stamp_of(&st));
        if (is_reported || differs) {
            handle_reopen(f, child, LAYER_BASE);
            inval_batch_add_pages(f, batch, child);
        }
    } else {
        /* The name was not loaded when we looked, so a passage found since is current. */
        detach_name(f, dir, name, NULL, visibility != VISIBILITY_BELOW || child || !is_there);
        if (visibility == VISIBILITY_BELOW)
            passages_forget(f);
        if (is_reported && visibility == VISIBILITY_FULL)
            revalidate_touch(f, dir);
        if (child || is_reported)
            inval_batch_add_name(f, batch, dir, name, child && inode_is_dir(child));
    }
}

static void revalidate_entry(struct fence *f, struct inode *dir, const char *name, bool is_reported, struct inval_batch *batch)
{
    enum visibility visibility = revalidate_visibility(f, dir, name);
    uint8_t flags;
    struct inode *child = child_of(f, dir, name, &flags);
    bool is_covered = (flags & ENTRY_WHITEOUT) || ((flags & ENTRY_UP) && !(child && inode_is_dir(child)));

    if (is_reported)
        casefold_recheck(f, dir);
    /* Nothing of the base shows through this directory, and no entry of it is left. */
    is_covered |= !inode_has(dir, INODE_BASE) && !(child && (flags == 0 || inode_is_dir(child)));
    if (visibility == VISIBILITY_BELOW && !was_shown(f, dir, name, child))
        search_hidden_again(f, dir, name, batch);
    else if (visibility != VISIBILITY_NONE && !is_covered)
        compare_entry(f, dir, name, child, visibility, is_reported, batch);
    if (is_reported && visibility == VISIBILITY_FULL && !is_covered)
        inval_batch_add_listing(f, batch, dir);
    inode_unref(f, child);
}

/* The time of a directory moves whether or not a name in it changed: otherwise it would depend on hidden names. DEPTH_MAX
 * bounds the recursion. */
static void revalidate_below(struct fence *f, struct inode *dir, struct inval_batch *batch)
{
    autodone(buf) struct buf names = BUF_EMPTY;
    bool shows_base = inode_has(dir, INODE_BASE);

    if (inode_has(dir, INODE_DEAD))
        return;
    casefold_recheck(f, dir);
    tree_lock(f);
    for (const struct entry *e = entry_next(dir, NULL); e; e = entry_next(dir, e)) {
        if (e->inode && (e->flags == 0 || e->inode->dir))
            buf_add(&names, e->name, (size_t) e->len + 1);
        shows_base |= e->inode && e->flags == 0;
    }
    tree_unlock(f);
    if (shows_base)
        revalidate_touch(f, dir);
    inval_batch_add_listing(f, batch, dir);
    batch->is_wide = true;
    for (size_t at = 0; at < names.len; at += strlen(names.data + at) + 1)
        revalidate_entry(f, dir, names.data + at, false, batch);
}

/* The rules decide about the whole path, whatever of it is loaded: what is hidden has no effect on what is above it. */
static bool may_be_seen(struct fence *f, const char *path)
{
    autoptr(match_state) at = match_state_ref(ruleset_root(f->rules));

    for (size_t len; *path; path += len + (path[len] == '/')) {
        len = strcspn(path, "/");
        struct match_state *next = ruleset_step(f->rules, at, path, len);
        match_state_unref(at);
        at = next;
    }
    return required_level_check(POLICY_OP_LOOKUP, match_state_level(at), false) == 0 || ruleset_may_show_below(f->rules, at);
}

/* Of an unloaded directory in between, the kernel can at most remember that it did not exist. */
void revalidate_path(struct fence *f, const char *path, struct inval_batch *batch)
{
    char name[NAME_MAX + 1];
    bool is_last;
    struct inode *dir;

    passages_forget_absent(f);
    if (!*path)
        revalidate_below(f, f->root, batch);
    if (!*path || !may_be_seen(f, path))
        return;
    dir = find_last_visible(f, path, name, &is_last);
    if (!dir)
        return;
    if (is_last || revalidate_visibility(f, dir, name) != VISIBILITY_FULL)
        revalidate_entry(f, dir, name, is_last, batch);
    else
        inval_batch_add_name(f, batch, dir, name, true);
    inode_unref(f, dir);
}
