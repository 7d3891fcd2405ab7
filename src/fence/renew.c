#include "fence/renew.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fence/handle.h"
#include "fence/inode.h"
#include "fence/layer.h"
#include "fence/live.h"
#include "fence/passage.h"
#include "fence/resolve.h"
#include "fence/seen.h"
#include "fence/spelling.h"
#include "fence/whiteout.h"

enum sight renew_sight_of(struct fence *f, struct inode *dir, const char *name)
{
    autoptr(place) at = inode_dup_place(f, dir);
    autoptr(place) place = at ? ruleset_step(f->rules, at, name, strlen(name)) : NULL;

    if (!place || whiteout_is_reserved(name))
        return SIGHT_NONE;
    if (need_check(NEED_LOOKUP, place_level(place), false) == 0)
        return SIGHT_FULL;
    return ruleset_may_show_below(f->rules, place) ? SIGHT_BELOW : SIGHT_NONE;
}

bool renew_is_shown(const struct fence *f, const struct inode *inode)
{
    return inode == f->root || atomic_load(&inode->level) != LEVEL_NONE || inode_has(inode, INODE_PASSAGE);
}

/* Under the directory's lock, so that a copy-up does not find its name gone in the moment it is placed. */
static void cut(struct fence *f, struct inode *dir, const char *name, const struct inode *inode, bool may_be_shown)
{
    dir_lock(f, dir);
    tree_lock(f);
    struct entry *e = inode_has(dir, INODE_DEAD) ? NULL : entry_find(dir, name, strlen(name));
    if (e && e->flags == 0 && e->inode && (!inode || e->inode == inode) && (may_be_shown || !renew_is_shown(f, e->inode))) {
        inode_ref(dir);
        tree_vacate(f, e);
        entry_tidy(f, e);
        inode_unref_locked(f, dir);
    }
    tree_unlock(f);
    dir_unlock(f, dir);
}

void renew_cut(struct fence *f, struct inode *dir, const char *name, const struct inode *inode)
{
    cut(f, dir, name, inode, true);
}

void renew_merged(struct fence *f, struct inode *dir, struct inode *child, const char *name)
{
    struct stat st;
    int flags = resolve_merged(f, dir, name, &st);

    handle_drop(f, child, LAYER_BASE);
    if (flags < 0)
        return;
    if (!(flags & INODE_BASE)) {
        inode_clear(child, INODE_BASE);
        return;
    }
    inode_set(child, INODE_BASE);
    atomic_store(&child->seen, seen_of(&st));
    live_watch(f, child, &st);
}

/* That a passage comes or goes is not told by a time: nobody knows whether it was there before it was asked for, and what is known
 * is forgotten when something hidden moves. */
void renew_touch(struct fence *f, struct inode *dir)
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
    return child ? renew_is_shown(f, child) : passage_was_shown(f, inode_number_of(dir->ino, name, strlen(name)));
}

/* Whether a hidden name leads to something visible now is found out before anybody is told that something changed. */
static void search_anew(struct fence *f, struct inode *dir, const char *name, struct news *news)
{
    struct inode *found;

    passages_forget_absent(f);
    if (renew_sight_of(f, dir, name) != SIGHT_BELOW)
        return;
    autoptr(place) at = inode_dup_place(f, dir);
    autoptr(place) place = at ? ruleset_step(f->rules, at, name, strlen(name)) : NULL;
    /* Somebody else may have found it to be a passage since: whoever was given that keeps it. */
    cut(f, dir, name, NULL, false);
    if (!place || resolve_name(f, dir, name, place, true, &found, NULL) < 0)
        return;
    news_add_name(f, news, dir, name, true);
    news_add_listing(f, news, dir);
    inode_unref(f, found);
}

static bool is_of_type(const struct inode *inode, mode_t mode)
{
    return (atomic_load(&inode->mode) & S_IFMT) == (mode & S_IFMT);
}

/* Word of what we have looked at since, as after a release (hold.h), whose holder wrote the base: who has the file open has this
 * one. */
static bool was_seen(struct fence *f, struct inode *dir, const char *name, const struct inode *child)
{
    struct stat st;

    return child && !inode_is_dir(child) && layer_base_has(f, dir, name, &st) == 1 && is_of_type(child, st.st_mode) &&
           !(seen_differs(atomic_load(&child->seen), &st) & (SEEN_OTHER_FILE | SEEN_OTHER_CONTENT));
}

static void replace(struct fence *f, struct inode *dir, const char *name, struct inode *child, uint8_t flags, enum sight sight,
                    struct news *news)
{
    bool is_dir = child && inode_is_dir(child);

    if (flags == 0 && sight == SIGHT_FULL && was_seen(f, dir, name, child)) {
        news_add_pages(f, news, child);
        news_add_listing(f, news, dir);
        return;
    }
    if ((flags & ENTRY_UP) && is_dir)
        renew_merged(f, dir, child, name);
    else if (flags == 0)
        renew_cut(f, dir, name, NULL);
    if (sight == SIGHT_BELOW)
        passages_forget(f);
    else
        passages_forget_absent(f);
    if (sight == SIGHT_FULL && flags == 0)
        renew_touch(f, dir);
    news_add_name(f, news, dir, name, is_dir);
    news_add_listing(f, news, dir);
}

void renew_name(struct fence *f, struct inode *dir, const char *name, struct news *news)
{
    enum sight sight = renew_sight_of(f, dir, name);
    uint8_t flags;
    struct inode *child;

    if (sight == SIGHT_NONE)
        return;
    child = child_of(f, dir, name, &flags);
    if (sight == SIGHT_BELOW && !was_shown(f, dir, name, child))
        search_anew(f, dir, name, news);
    else
        replace(f, dir, name, child, flags, sight, news);
    inode_unref(f, child);
}

/* Where the sight along a path ends: the name that is its last, or that is not loaded or not shown, in a directory that is. */
static struct inode *find_end_of_sight(struct fence *f, const char *path, char ret_name[NAME_MAX + 1], bool *ret_is_last)
{
    struct inode *dir = f->root;

    autolock(&f->names);
    for (;;) {
        size_t len = strcspn(path, "/");
        const struct entry *e = len > 0 && len <= NAME_MAX ? entry_find(dir, path, len) : NULL;
        if (len == 0 || len > NAME_MAX)
            return NULL;
        *ret_is_last = path[len] == 0;
        if (*ret_is_last || !e || !e->inode || !renew_is_shown(f, e->inode)) {
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

/* A name that is shown but not loaded: nobody has looked further. */
void renew_hidden(struct fence *f, const char *path, struct news *news)
{
    char name[NAME_MAX + 1];
    bool is_last;
    uint8_t flags;
    struct inode *dir = find_end_of_sight(f, path, name, &is_last);
    struct inode *child = dir ? child_of(f, dir, name, &flags) : NULL;

    if (dir && !was_shown(f, dir, name, child))
        search_anew(f, dir, name, news);
    else
        passages_forget_absent(f);
    inode_unref(f, child);
    inode_unref(f, dir);
}

static void renew_below(struct fence *f, struct inode *dir, struct news *news);

/* A passage stays until it is removed. When another directory took its place, it was. */
static void search_kept(struct fence *f, struct inode *dir, const char *name, struct inode *child, struct news *news)
{
    passages_forget(f);
    inode_clear(child, INODE_PASSAGE);
    if (passage_shows(f, child))
        return;
    renew_cut(f, dir, name, NULL);
    news_add_name(f, news, dir, name, true);
    news_add_listing(f, news, dir);
}

/* Still a directory: who stands in it stays there, even if it is another one. */
static void keep_dir(struct fence *f, struct inode *dir, const char *name, struct inode *child, const struct stat *st,
                     enum sight sight, bool is_told, struct news *news)
{
    bool is_other = seen_differs(atomic_load(&child->seen), st) & SEEN_OTHER_FILE;

    if (inode_has(child, INODE_UP)) {
        renew_merged(f, dir, child, name);
    } else {
        handle_drop(f, child, LAYER_BASE);
        atomic_store(&child->seen, seen_of(st));
        atomic_store(&child->mode, (uint16_t) (st->st_mode & (S_IFMT | 01777)));
        if (is_other)
            live_watch(f, child, st);
    }
    renew_below(f, child, news);
    if (sight == SIGHT_BELOW && (is_other || is_told))
        search_kept(f, dir, name, child, news);
    else if (sight == SIGHT_FULL && is_other && is_told)
        renew_touch(f, dir);
}

/* Compares a loaded name with what the base has under it. `is_told`: somebody says that it changed. */
static void look_again(struct fence *f, struct inode *dir, const char *name, struct inode *child, enum sight sight,
                       bool is_told, struct news *news)
{
    struct stat st;
    bool is_there = layer_base_has(f, dir, name, &st) == 1;
    unsigned differs = is_there && child ? seen_differs(atomic_load(&child->seen), &st) : SEEN_OTHER_FILE;

    if (child && inode_is_dir(child) && is_there && S_ISDIR(st.st_mode)) {
        keep_dir(f, dir, name, child, &st, sight, is_told, news);
    } else if (child && inode_has(child, INODE_UP)) {
        renew_merged(f, dir, child, name);
        renew_below(f, child, news);
    } else if (child && !(differs & SEEN_OTHER_FILE) && is_of_type(child, st.st_mode)) {
        atomic_store(&child->seen, seen_of(&st));
        if (is_told || differs) {
            handle_renew(f, child, LAYER_BASE);
            news_add_pages(f, news, child);
        }
    } else {
        /* Nobody had it when we looked, so that whoever found a passage since has what is there. */
        cut(f, dir, name, NULL, sight != SIGHT_BELOW || child || !is_there);
        if (sight == SIGHT_BELOW)
            passages_forget(f);
        if (is_told && sight == SIGHT_FULL)
            renew_touch(f, dir);
        if (child || is_told)
            news_add_name(f, news, dir, name, child && inode_is_dir(child));
    }
}

static void renew_entry(struct fence *f, struct inode *dir, const char *name, bool is_told, struct news *news)
{
    enum sight sight = renew_sight_of(f, dir, name);
    uint8_t flags;
    struct inode *child = child_of(f, dir, name, &flags);
    bool is_covered = (flags & ENTRY_WHITEOUT) || ((flags & ENTRY_UP) && !(child && inode_is_dir(child)));

    if (is_told)
        spelling_doubt(f, dir);
    /* Nothing of the base shows through this directory, and nothing is left of what did. */
    is_covered |= !inode_has(dir, INODE_BASE) && !(child && (flags == 0 || inode_is_dir(child)));
    if (sight == SIGHT_BELOW && !was_shown(f, dir, name, child))
        search_anew(f, dir, name, news);
    else if (sight != SIGHT_NONE && !is_covered)
        look_again(f, dir, name, child, sight, is_told, news);
    if (is_told && sight == SIGHT_FULL && !is_covered)
        news_add_listing(f, news, dir);
    inode_unref(f, child);
}

/* The times of a directory move whether or not a name in it changed: that would depend on names nobody may know of. DEPTH_MAX
 * bounds the recursion. */
static void renew_below(struct fence *f, struct inode *dir, struct news *news)
{
    autodone(buf) struct buf names = BUF_EMPTY;
    bool shows_base = inode_has(dir, INODE_BASE);

    if (inode_has(dir, INODE_DEAD))
        return;
    spelling_doubt(f, dir);
    tree_lock(f);
    for (uint32_t i = 0; i < dir->dir->bucket_count; i++) {
        for (const struct entry *e = dir->dir->buckets[i]; e; e = e->bucket_next) {
            if (e->inode && (e->flags == 0 || e->inode->dir))
                buf_add(&names, e->name, (size_t) e->len + 1);
            shows_base |= e->inode && e->flags == 0;
        }
    }
    tree_unlock(f);
    if (shows_base)
        renew_touch(f, dir);
    news_add_listing(f, news, dir);
    news->is_wide = true;
    for (size_t at = 0; at < names.len; at += strlen(names.data + at) + 1)
        renew_entry(f, dir, names.data + at, false, news);
}

/* The rules decide on the whole path, whatever of it is loaded: what nobody may see has no effect on what is above it. */
static bool may_be_seen(struct fence *f, const char *path)
{
    autoptr(place) at = place_ref(ruleset_root(f->rules));

    for (size_t len; *path; path += len + (path[len] == '/')) {
        len = strcspn(path, "/");
        struct place *next = ruleset_step(f->rules, at, path, len);
        place_unref(at);
        at = next;
    }
    return need_check(NEED_LOOKUP, place_level(at), false) == 0 || ruleset_may_show_below(f->rules, at);
}

/* Of a directory on the way that is not loaded the kernel may only remember that it is not there. */
void renew_path(struct fence *f, const char *path, struct news *news)
{
    char name[NAME_MAX + 1];
    bool is_last;
    struct inode *dir;

    passages_forget_absent(f);
    if (!*path)
        renew_below(f, f->root, news);
    if (!*path || !may_be_seen(f, path))
        return;
    dir = find_end_of_sight(f, path, name, &is_last);
    if (!dir)
        return;
    if (is_last || renew_sight_of(f, dir, name) != SIGHT_FULL)
        renew_entry(f, dir, name, is_last, news);
    else
        news_add_name(f, news, dir, name, true);
    inode_unref(f, dir);
}
