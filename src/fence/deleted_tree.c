#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/directory.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/inode.h"
#include "fence/sync_scan.h"
#include "fence/whiteout.h"

/*
 * The base knows no markers. So a deleted or opaque directory becomes removals of what this sandbox could see in the base, and
 * of nothing else. Hidden files survive, and so does their directory; then the marker stays in the delta, so that the directory
 * stays deleted in here. What came into the base after the sandbox had deleted the directory survives too, and becomes visible.
 */
static int add_child(struct deleted_tree *w, int fd, const char *name, struct match_state *match, unsigned depth)
{
    struct fence *f = w->g->f;
    autoptr(match_state) child = ruleset_step(f->rules, match, name, strlen(name));
    size_t len;
    int r;

    if (whiteout_is_reserved(name)) {
        w->has_hidden = true;
        return 0;
    }
    if (required_level_check(POLICY_OP_LOOKUP, match_state_level(child), false) < 0) {
        w->has_hidden = true;
        if (!ruleset_may_show_below(f->rules, child))
            return 0;
    }
    len = sync_scan_push(w->g, name);
    r = deleted_tree_add(w, fd, name, child, depth + 1);
    sync_scan_pop(w->g, len);
    return r;
}

static int add_children(struct deleted_tree *w, int dirfd, const char *name, struct match_state *match, unsigned depth)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;
    autodirectory dir = directory_take(fd < 0 ? -errno : fd);

    if (!dir)
        return -errno;
    for (const struct dirent *d; r == 0 && (d = directory_next(dir));)
        r = add_child(w, fd, d->d_name, match, depth);
    return r;
}

int deleted_tree_add(struct deleted_tree *w, int dirfd, const char *name, struct match_state *match, unsigned depth)
{
    struct sync_out_change change = { .kind = SYNC_OUT_REMOVED, .from_fd = -1, .changed_ns = w->removed_ns };
    bool is_visible = required_level_check(POLICY_OP_LOOKUP, match_state_level(match), false) == 0;
    struct stat st;
    int r;

    if (depth > FILE_WALK_DEPTH_MAX)
        return -ENAMETOOLONG;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (S_ISDIR(st.st_mode)) {
        struct deleted_tree inner = { .g = w->g, .removed_ns = w->removed_ns };
        r = add_children(&inner, dirfd, name, match, depth);
        w->has_hidden |= inner.has_hidden;
        w->has_newer |= inner.has_newer;
        if (r < 0 || inner.has_hidden || inner.has_newer || !is_visible)
            return r;
    } else if (!is_visible) {
        return 0;
    } else if (depth > 0 && sync_scan_ns(st.st_ctim) > w->removed_ns) {
        w->has_newer = true;
        return 0;
    }
    change.was = sync_scan_base_of(&st);
    if (depth == 0 && !S_ISDIR(st.st_mode))
        change.was = sync_scan_base_at(w->g, &(struct base_dir){ .fd = dirfd }, &st);
    sync_scan_change(w->g, &change);
    return 0;
}

int deleted_tree_add_marked(struct sync_scan *g, struct inode *dir, const struct base_dir *below, const struct scan_entry *it)
{
    char marker[NAME_MAX + 1];
    struct deleted_tree w = { .g = g };
    struct stat st, base;
    struct sync_out_item *item;
    size_t len;
    int r;

    item = sync_scan_item(g, SYNC_OUT_ITEM_MARKER, dir, it);
    if (!base_dir_stat(below, it->name, &base))
        return 0;
    whiteout_name(it->name, marker);
    len = g->path.len - strlen(it->name);
    autofree char *at = xprintf("%.*s%s", (int) len, g->path.data, marker);
    r = path_stat_beneath(g->f->data_fd, at, &st);
    if (r < 0)
        return r;
    w.removed_ns = sync_scan_ns(st.st_ctim);
    r = deleted_tree_add(&w, below->fd, it->name, it->match, 0);
    item->is_blocked = w.has_hidden && !w.has_newer;
    item->count = g->list->count - item->first;
    return r;
}

/* A directory that was deleted together with its parent, and stays in the base for what is hidden in it. */
static int add_or_hide(struct sync_scan *g, struct inode *dir, const struct base_dir *in, int fd, const char *name,
                       struct match_state *match)
{
    struct deleted_tree w = { .g = g, .removed_ns = in->cover_ns };
    autoptr(match_state) child = ruleset_step(g->f->rules, match, name, strlen(name));
    bool is_visible = required_level_check(POLICY_OP_LOOKUP, match_state_level(child), false) == 0;
    int r = add_child(&w, fd, name, match, 0);

    if (r == 0 && is_visible && w.has_hidden && !w.has_newer) {
        struct scan_entry it = { .name = (char *) (uintptr_t) name };
        size_t len = sync_scan_push(g, name);
        sync_scan_item(g, SYNC_OUT_ITEM_HIDE, dir, &it);
        sync_scan_pop(g, len);
    }
    return r;
}

int deleted_tree_add_uncovered(struct sync_scan *g, struct inode *inode, const struct base_dir *in, const struct scan_entry *it)
{
    autodirectory dir = directory_open(in->fd);
    int r = 0;

    if (!dir)
        return -errno;
    for (const struct dirent *d; r == 0 && (d = directory_next(dir));) {
        tree_lock(g->f);
        const struct entry *e = entry_find(inode, d->d_name, strlen(d->d_name));
        bool is_up = e && (e->flags & ENTRY_UP);
        tree_unlock(g->f);
        if (!is_up)
            r = add_or_hide(g, inode, in, dirfd(dir), d->d_name, it->match);
    }
    return r;
}
