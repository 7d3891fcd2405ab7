#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/base_origin.h"
#include "fence/delta.h"
#include "fence/inode.h"
#include "fence/quota.h"
#include "fence/resolve.h"
#include "fence/sync_age.h"
#include "fence/sync_out_int.h"
#include "fence/whiteout.h"

/*
 * Lists the changes from the entries in memory. It only looks at the delta where they say that there is something.
 */
struct promised_dir {
    size_t path_len;
    mode_t mode;
};

struct sync_scan {
    struct fence *f;
    struct sync_out_list *list;
    struct buf path;
    struct buf roots;              /* text of meta/roots */
    struct promised_dir *promised; /* owned; directories on the path that so far only rules asked for */
    size_t promised_count, promised_cap;
    int64_t moved_ns; /* the latest rename of a directory on the path */
};

/* A copy of an entry, usable without the lock of the tree. */
struct scan_entry {
    char *name;
    uint8_t flags, type;
    struct match_state *match;
    struct inode *inode;
};

/* The base directory that belongs to one of the delta. */
struct base_dir {
    int fd;           /* O_PATH; -1: there is none */
    int64_t cover_ns; /* since when nothing of it showed through; 0: it shows through */
};

/* A deletion that is being expanded. */
struct deleted_tree {
    struct sync_scan *g;
    int64_t removed_ns;
    bool has_hidden; /* something stays that is hidden from the sandbox */
    bool has_newer;  /* something stays that is newer */
};

static void sync_scan_append(struct sync_scan *g, const struct sync_out_change *change, size_t path_len)
{
    struct sync_out_list *list = g->list;

    vec_room(&list->changes, &list->cap, list->count);
    list->changes[list->count] = *change;
    list->changes[list->count].path = xdupn(g->path.data, path_len);
    if (change->from_fd >= 0)
        list->changes[list->count].name = list->changes[list->count].path;
    list->count++;
}

/* Adds a change at the path of `g`. Directories on it that only rules asked for become changes too, now that something is in
 * them. */
static void sync_scan_change(struct sync_scan *g, const struct sync_out_change *change)
{
    for (size_t i = 0; i < g->promised_count; i++) {
        struct sync_out_change dir = { .kind = SYNC_OUT_DIR, .from_fd = -1, .changed_ns = change->changed_ns };
        dir.mode = g->promised[i].mode;
        dir.was.kind = SYNC_OUT_BASE_ABSENT;
        sync_scan_append(g, &dir, g->promised[i].path_len);
    }
    g->promised_count = 0;
    sync_scan_append(g, change, g->path.len);
}

static struct sync_out_item *sync_scan_item(struct sync_scan *g, enum sync_out_item_kind kind, struct inode *dir,
                                            const struct scan_entry *it)
{
    struct sync_out_list *list = g->list;
    struct sync_out_item *item;

    vec_room(&list->items, &list->item_cap, list->item_count);
    item = &list->items[list->item_count++];
    *item = (struct sync_out_item){ .kind = kind, .dir = dir, .inode = it->inode, .first = list->count };
    item->path = xdupn(g->path.data, g->path.len);
    item->name = item->path + g->path.len - strlen(it->name);
    tree_lock(g->f);
    inode_ref(dir);
    if (it->inode)
        inode_ref(it->inode);
    tree_unlock(g->f);
    return item;
}

/* Returns the length for sync_scan_pop(). */
static size_t sync_scan_push(struct sync_scan *g, const char *name)
{
    size_t len = g->path.len;

    if (len > 0)
        buf_add_char(&g->path, '/');
    buf_add_str(&g->path, name);
    return len;
}

static void sync_scan_pop(struct sync_scan *g, size_t len)
{
    g->path.len = len;
    g->path.data[len] = 0;
}

static bool base_dir_stat(const struct base_dir *below, const char *name, struct stat *ret)
{
    return below->fd >= 0 && fstatat(below->fd, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

static struct sync_out_base sync_scan_base_of(const struct stat *st)
{
    return (struct sync_out_base){ SYNC_OUT_BASE_PRESENT, st->st_ino, (uint64_t) st->st_size,
                                   clock_ns_of_timespec(st->st_mtim) };
}

/* What the base had at the path when it was covered. `base` is what it has now, or NULL. Below a directory that was covered as
 * a whole no origins are recorded: what is there since before then was there. */
static struct sync_out_base sync_scan_base_at(struct sync_scan *g, const struct base_dir *below, const struct stat *base)
{
    struct base_origin origin;

    if (base_origin_find(g->f, g->path.data, &origin))
        return (struct sync_out_base){ SYNC_OUT_BASE_PRESENT, origin.ino, origin.size_bytes, origin.mtime_ns };
    if (base && below->cover_ns && clock_ns_of_timespec(base->st_ctim) <= below->cover_ns)
        return sync_scan_base_of(base);
    return (struct sync_out_base){ .kind = SYNC_OUT_BASE_ABSENT };
}

/* ---- deletions ---- */

/*
 * The base knows no markers. So a deleted or opaque directory becomes removals of what this sandbox could see in the base, and
 * of nothing else. Hidden files survive, and so does their directory; then the marker stays in the delta, so that the directory
 * stays deleted in here. What came into the base after the sandbox had deleted the directory survives too, and becomes visible.
 */
static int deleted_tree_add(struct deleted_tree *w, int dirfd, const char *name, struct match_state *match, unsigned depth);

static int deleted_tree_add_child(struct deleted_tree *w, int fd, const char *name, struct match_state *match, unsigned depth)
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

static int deleted_tree_add_children(struct deleted_tree *w, int dirfd, const char *name, struct match_state *match,
                                     unsigned depth)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;
    autodirectory dir = directory_take(fd < 0 ? -errno : fd);

    if (!dir)
        return -errno;
    for (const struct dirent *d; r == 0 && (d = directory_next(dir));)
        r = deleted_tree_add_child(w, fd, d->d_name, match, depth);
    return r;
}

/* Expands the deletion of a name, whose path is that of `g`. A hidden directory is searched for visible children, and stays. */
static int deleted_tree_add(struct deleted_tree *w, int dirfd, const char *name, struct match_state *match, unsigned depth)
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
        r = deleted_tree_add_children(&inner, dirfd, name, match, depth);
        w->has_hidden |= inner.has_hidden;
        w->has_newer |= inner.has_newer;
        if (r < 0 || inner.has_hidden || inner.has_newer || !is_visible)
            return r;
    } else if (!is_visible) {
        return 0;
    } else if (depth > 0 && clock_ns_of_timespec(st.st_ctim) > w->removed_ns) {
        w->has_newer = true;
        return 0;
    }
    change.was = sync_scan_base_of(&st);
    if (depth == 0 && !S_ISDIR(st.st_mode))
        change.was = sync_scan_base_at(w->g, &(struct base_dir){ .fd = dirfd }, &st);
    sync_scan_change(w->g, &change);
    return 0;
}

/* The same for a name with a marker. */
static int deleted_tree_add_marked(struct sync_scan *g, struct inode *dir, const struct base_dir *below,
                                   const struct scan_entry *it)
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
    w.removed_ns = clock_ns_of_timespec(st.st_ctim);
    r = deleted_tree_add(&w, below->fd, it->name, it->match, 0);
    item->is_blocked = w.has_hidden && !w.has_newer;
    item->count = g->list->count - item->first;
    return r;
}

/* A directory that was deleted together with its parent, and stays in the base for what is hidden in it. */
static int deleted_tree_add_or_hide(struct sync_scan *g, struct inode *dir, const struct base_dir *in, int fd, const char *name,
                                    struct match_state *match)
{
    struct deleted_tree w = { .g = g, .removed_ns = in->cover_ns };
    autoptr(match_state) child = ruleset_step(g->f->rules, match, name, strlen(name));
    bool is_visible = required_level_check(POLICY_OP_LOOKUP, match_state_level(child), false) == 0;
    int r = deleted_tree_add_child(&w, fd, name, match, 0);

    if (r == 0 && is_visible && w.has_hidden && !w.has_newer) {
        struct scan_entry it = { .name = (char *) (uintptr_t) name };
        size_t len = sync_scan_push(g, name);
        sync_scan_item(g, SYNC_OUT_ITEM_HIDE, dir, &it);
        sync_scan_pop(g, len);
    }
    return r;
}

/* The same for what the base has in an opaque directory and the delta has not. */
static int deleted_tree_add_uncovered(struct sync_scan *g, struct inode *inode, const struct base_dir *in,
                                      const struct scan_entry *it)
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
            r = deleted_tree_add_or_hide(g, inode, in, dirfd(dir), d->d_name, it->match);
    }
    return r;
}

/* ---- the walk over the delta ---- */

struct scan_entries {
    struct scan_entry *items;
    size_t count, cap;
};

void sync_out_list_done(struct fence *f, struct sync_out_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free((char *) (uintptr_t) list->changes[i].path);
    for (size_t i = 0; i < list->item_count; i++) {
        inode_unref(f, list->items[i].dir);
        inode_unref(f, list->items[i].inode);
        free(list->items[i].path);
    }
    free(list->changes);
    free(list->items);
    *list = (struct sync_out_list){ 0 };
}

static int list_changed_file(struct sync_scan *g, struct inode *dir, const struct base_dir *below, const struct scan_entry *it)
{
    struct sync_out_change change = { .kind = SYNC_OUT_FILE, .from_fd = g->f->data_fd };
    struct sync_out_item *item;
    struct stat st, base;
    bool in_base = base_dir_stat(below, it->name, &base);
    int r = path_stat_beneath(g->f->data_fd, g->path.data, &st);

    if (r < 0) {
        if (r != -ENOENT || !in_base)
            return r;
        /* It was applied the last time, when not all could be done, and somebody else finished it: it only has to be
         * forgotten. */
        sync_scan_item(g, SYNC_OUT_ITEM_FILE, dir, it);
        return 0;
    }
    if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return 0;
    item = sync_scan_item(g, SYNC_OUT_ITEM_FILE, dir, it);
    item->bytes = quota_bytes_of(&st);
    change.mode = st.st_mode & 0777;
    change.changed_ns = sync_age_of(g->f, g->path.data, &st);
    if (change.changed_ns < g->moved_ns)
        change.changed_ns = g->moved_ns;
    if (S_ISLNK(st.st_mode))
        change.kind = SYNC_OUT_SYMLINK;
    change.was = sync_scan_base_at(g, below, in_base ? &base : NULL);
    if (in_base && S_ISDIR(base.st_mode)) {
        struct deleted_tree w = { .g = g, .removed_ns = change.changed_ns };
        r = deleted_tree_add(&w, below->fd, it->name, it->match, 0);
        /* What is in the way cannot be removed, so this cannot be applied. */
        if (r < 0 || w.has_hidden || w.has_newer) {
            item->is_blocked = true;
            return r;
        }
        change.was.kind = SYNC_OUT_BASE_UNKNOWN;
    }
    sync_scan_change(g, &change);
    item->first = g->list->count - 1;
    item->count = 1;
    return 0;
}

static int list_changed_children(struct sync_scan *g, struct inode *dir, const struct base_dir *below);

/* A directory without the opaque mark was made where the base had nothing: what has come there since is by others, and not
 * covered. */
static int64_t cover_time(struct sync_scan *g)
{
    autofree char *at = xprintf("%s/" WHITEOUT_OPAQUE, g->path.data);
    struct stat st;

    return path_stat_beneath(g->f->data_fd, at, &st) == 0 ? clock_ns_of_timespec(st.st_ctim) : 0;
}

static void list_dir_change(struct sync_scan *g, enum sync_out_kind kind, const struct stat *st, struct sync_out_base was)
{
    struct sync_out_change change = { .kind = kind, .mode = st->st_mode & 0777, .from_fd = -1, .was = was };

    change.changed_ns = clock_ns_of_timespec(st->st_ctim);
    sync_scan_change(g, &change);
}

static int list_dir_itself(struct sync_scan *g, const struct base_dir *below, const struct scan_entry *it, struct inode *inode,
                           struct base_dir *in)
{
    struct stat st, base;
    bool in_base = base_dir_stat(below, it->name, &base);
    struct sync_out_base absent = { .kind = SYNC_OUT_BASE_ABSENT };
    int r = path_stat_beneath(g->f->data_fd, g->path.data, &st);

    if (r < 0)
        return r;
    if (!inode_has(inode, INODE_BASE))
        in->cover_ns = cover_time(g);
    if (in_base && !S_ISDIR(base.st_mode)) {
        struct sync_out_change gone = { .kind = SYNC_OUT_REMOVED,
                                        .from_fd = -1,
                                        .changed_ns = clock_ns_of_timespec(st.st_ctim) };
        gone.was = sync_scan_base_at(g, below, &base);
        sync_scan_change(g, &gone);
        in_base = false;
    }
    /* A directory that a rule asked for is no change while it is empty. */
    if (!in_base && delta_is_root(&g->roots, g->path.data, g->path.len)) {
        vec_room(&g->promised, &g->promised_cap, g->promised_count);
        g->promised[g->promised_count++] = (struct promised_dir){ g->path.len, st.st_mode & 0777 };
        return 0;
    }
    if (!in_base) {
        list_dir_change(g, SYNC_OUT_DIR, &st, absent);
        return 0;
    }
    if ((st.st_mode ^ base.st_mode) & 0777)
        list_dir_change(g, SYNC_OUT_MODE, &st, sync_scan_base_of(&base));
    in->fd = openat(below->fd, it->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return in->fd < 0 ? -errno : 0;
}

static int list_changed_dir(struct sync_scan *g, struct inode *dir, const struct base_dir *below, const struct scan_entry *it)
{
    struct base_dir in = { .fd = -1 };
    int64_t moved_ns = g->moved_ns;
    size_t promised = g->promised_count, index;
    struct sync_out_item *item;
    int r;

    if (it->inode->dir->moved_ns > g->moved_ns)
        g->moved_ns = it->inode->dir->moved_ns;
    item = sync_scan_item(g, SYNC_OUT_ITEM_DIR, dir, it);
    item->is_opaque = !inode_has(it->inode, INODE_BASE);
    index = g->list->item_count - 1;
    r = list_dir_itself(g, below, it, it->inode, &in);
    g->list->items[index].count = g->list->count - g->list->items[index].first;
    if (r == 0 && in.fd >= 0 && in.cover_ns)
        r = deleted_tree_add_uncovered(g, it->inode, &in, it);
    if (r == 0)
        r = list_changed_children(g, it->inode, &in);
    /* Nothing was in it, so it is no change. */
    if (g->promised_count > promised) {
        g->promised_count = promised;
        g->list->items[index].is_blocked = true;
    }
    if (in.fd >= 0)
        close(in.fd);
    g->moved_ns = moved_ns;
    return r;
}

static int cmp_scan_entry(const void *a, const void *b)
{
    return strcmp(((const struct scan_entry *) a)->name, ((const struct scan_entry *) b)->name);
}

/* Collects what the delta has under names of the directory, sorted, so that the order is stable. */
static void read_entries(struct fence *f, struct inode *dir, struct scan_entries *list)
{
    tree_lock(f);
    for (struct entry *e = entry_next(dir, NULL); e; e = entry_next(dir, e)) {
        if (!e->flags)
            continue;
        vec_room(&list->items, &list->cap, list->count);
        list->items[list->count++] =
            (struct scan_entry){ xdup(e->name), e->flags, e->type, match_state_ref(e->match), e->inode };
        if (e->inode)
            inode_ref(e->inode);
    }
    tree_unlock(f);
    if (list->count > 0)
        qsort(list->items, list->count, sizeof(*list->items), cmp_scan_entry);
}

static void scan_entries_done(struct fence *f, struct scan_entries *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].name);
        match_state_unref(list->items[i].match);
        inode_unref(f, list->items[i].inode);
    }
    free(list->items);
}

static int list_changed_entry(struct sync_scan *g, struct inode *dir, const struct base_dir *below, struct scan_entry *it)
{
    int r;

    if (it->flags & ENTRY_WHITEOUT)
        return deleted_tree_add_marked(g, dir, below, it);
    if (it->type != DT_DIR && !(it->inode && inode_is_dir(it->inode)))
        return list_changed_file(g, dir, below, it);
    if (!it->inode) {
        r = resolve_name(g->f, dir, it->name, it->match, false, &it->inode, NULL);
        if (r < 0)
            return r;
    }
    return list_changed_dir(g, dir, below, it);
}

static int list_changed_children(struct sync_scan *g, struct inode *dir, const struct base_dir *below)
{
    struct scan_entries entries = { 0 };
    int r = 0;

    read_entries(g->f, dir, &entries);
    for (size_t i = 0; r == 0 && i < entries.count; i++) {
        size_t len = sync_scan_push(g, entries.items[i].name);
        r = list_changed_entry(g, dir, below, &entries.items[i]);
        sync_scan_pop(g, len);
    }
    scan_entries_done(g->f, &entries);
    return r;
}

/* If one name of a file stays in the delta, all do: otherwise the delta and the base would share the file. */
static void block_linked(struct sync_out_list *list)
{
    for (size_t i = 0; i < list->item_count; i++) {
        struct sync_out_item *stays = &list->items[i];
        if (stays->kind != SYNC_OUT_ITEM_FILE || !stays->is_blocked || !stays->inode || !inode_has(stays->inode, INODE_LINKED))
            continue;
        for (size_t k = 0; k < list->item_count; k++) {
            if (list->items[k].inode == stays->inode)
                list->items[k].is_blocked = true;
        }
    }
}

/* Removes the changes of blocked items from the list, and adjusts the indexes of the others. */
static void leave_out_blocked(struct sync_out_list *list)
{
    autofree size_t *now_at = xalloc((list->count + 1) * sizeof(*now_at));
    autofree bool *goes = xalloc(list->count + 1);
    size_t kept = 0;

    for (size_t i = 0; i < list->item_count; i++) {
        const struct sync_out_item *item = &list->items[i];
        if (item->kind == SYNC_OUT_ITEM_FILE && item->is_blocked && item->count > 0)
            goes[item->first] = true;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (goes[i]) {
            free((char *) (uintptr_t) list->changes[i].path);
            continue;
        }
        now_at[i] = kept;
        list->changes[kept++] = list->changes[i];
    }
    list->count = kept;
    for (size_t i = 0; i < list->item_count; i++) {
        struct sync_out_item *item = &list->items[i];
        if (item->kind == SYNC_OUT_ITEM_FILE && item->is_blocked)
            item->count = 0;
        if (item->count > 0)
            item->first = now_at[item->first];
    }
}

int sync_out_list_fill(struct fence *f, struct sync_out_list *list)
{
    struct sync_scan g = { .f = f, .list = list };
    struct base_dir below = { .fd = f->base_fd };
    int r;

    if (file_read(f->meta_fd, "roots", 1 << 20, &g.roots) < 0)
        buf_clear(&g.roots);
    buf_room(&g.path, 1);
    g.path.data[0] = 0;
    r = list_changed_children(&g, f->root, &below);
    if (r == 0) {
        block_linked(list);
        leave_out_blocked(list);
    }
    free(g.promised);
    buf_done(&g.path);
    buf_done(&g.roots);
    return r;
}
