#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/handover_int.h"
#include "fence/inode.h"
#include "fence/origin.h"
#include "fence/quota.h"
#include "fence/resolve.h"
#include "fence/whiteout.h"

/*
 * What there is to hand over, from the entries in memory: the delta itself is only looked at where they say there is something.
 *
 * The base does not know markers for "nothing of what was here": a deleted or opaque directory is spelled out as removals of what
 * this sandbox could see in the base, and of nothing else. What is hidden survives, and so does its directory, and then the
 * marker stays in the delta, so that it stays gone in here. What came into the base after the sandbox had deleted was not
 * there to be deleted: it survives too, and comes in sight.
 */
struct promise {
    size_t path_len;
    mode_t mode;
};

struct gather {
    struct fence *f;
    struct handover_list *list;
    struct buf path;
    struct buf roots;         /* text of meta/roots */
    struct promise *promised; /* owned: directories on the path that only rules asked for so far */
    size_t promised_count, promised_cap;
    int64_t moved_ns; /* the latest move of a directory on the path */
};

/* What an entry says, apart from the tree, whose lock is not held. */
struct found {
    char *name;
    uint8_t flags, type;
    struct place *place;
    struct inode *inode;
};

struct founds {
    struct found *items;
    size_t count, cap;
};

/* The directory of the base that belongs to the one of the delta. */
struct below {
    int fd;           /* O_PATH; -1: there is none */
    int64_t cover_ns; /* since when nothing of it showed through; 0: it shows through */
};

static int64_t ns_of(struct timespec t)
{
    return (int64_t) t.tv_sec * CLOCK_NS_PER_SEC + t.tv_nsec;
}

/* ---- the list ---- */

void handover_list_done(struct fence *f, struct handover_list *list)
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
    *list = (struct handover_list){ 0 };
}

static void add_change(struct gather *g, const struct handover_change *change, size_t path_len)
{
    struct handover_list *list = g->list;

    vec_room(&list->changes, &list->cap, list->count);
    list->changes[list->count] = *change;
    list->changes[list->count].path = xdupn(g->path.data, path_len);
    if (change->from_fd >= 0)
        list->changes[list->count].name = list->changes[list->count].path;
    list->count++;
}

/* Directories that rules had promised are a change as soon as something is in them. */
static void emit(struct gather *g, const struct handover_change *change)
{
    for (size_t i = 0; i < g->promised_count; i++) {
        struct handover_change dir = { .kind = HANDOVER_DIR, .from_fd = -1, .changed_ns = change->changed_ns };
        dir.mode = g->promised[i].mode;
        dir.was.kind = HANDOVER_WAS_ABSENT;
        add_change(g, &dir, g->promised[i].path_len);
    }
    g->promised_count = 0;
    add_change(g, change, g->path.len);
}

static struct handover_item *add_item(struct gather *g, enum handover_item_kind kind, struct inode *dir, const struct found *it)
{
    struct handover_list *list = g->list;
    struct handover_item *item;

    vec_room(&list->items, &list->item_cap, list->item_count);
    item = &list->items[list->item_count++];
    *item = (struct handover_item){ .kind = kind, .dir = dir, .inode = it->inode, .first = list->count };
    item->path = xdupn(g->path.data, g->path.len);
    item->name = item->path + g->path.len - strlen(it->name);
    tree_lock(g->f);
    inode_ref(dir);
    if (it->inode)
        inode_ref(it->inode);
    tree_unlock(g->f);
    return item;
}

static size_t push(struct gather *g, const char *name)
{
    size_t len = g->path.len;

    if (len > 0)
        buf_add_char(&g->path, '/');
    buf_add_str(&g->path, name);
    return len;
}

static void pop(struct gather *g, size_t len)
{
    g->path.len = len;
    g->path.data[len] = 0;
}

/* ---- what was there ---- */

static bool stat_base(const struct below *below, const char *name, struct stat *ret)
{
    return below->fd >= 0 && fstatat(below->fd, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

static struct handover_was was_of_stat(const struct stat *st)
{
    return (struct handover_was){ HANDOVER_WAS_THERE, st->st_ino, (uint64_t) st->st_size, ns_of(st->st_mtim) };
}

/* Below a directory that was covered as a whole there is no origin of each name. What is there since before, was there. */
static struct handover_was was_at(struct gather *g, const struct below *below, const struct stat *base)
{
    struct origin origin;

    if (origin_find(g->f, g->path.data, &origin))
        return (struct handover_was){ HANDOVER_WAS_THERE, origin.ino, origin.size_bytes, origin.mtime_ns };
    if (base && below->cover_ns && ns_of(base->st_ctim) <= below->cover_ns)
        return was_of_stat(base);
    return (struct handover_was){ .kind = HANDOVER_WAS_ABSENT };
}

/* ---- removals ---- */

struct removal_walk {
    struct gather *g;
    int64_t removed_ns;
    bool has_hidden; /* something stays that the sandbox cannot see */
    bool has_newer;  /* something stays that came later */
};

static int remove_below(struct removal_walk *w, int dirfd, const char *name, struct place *place, unsigned depth);

static int remove_child(struct removal_walk *w, int fd, const char *name, struct place *place, unsigned depth)
{
    struct fence *f = w->g->f;
    autoptr(place) child = ruleset_step(f->rules, place, name, strlen(name));
    size_t len;
    int r;

    if (whiteout_is_reserved(name)) {
        w->has_hidden = true;
        return 0;
    }
    if (need_check(NEED_LOOKUP, place_level(child), false) < 0) {
        w->has_hidden = true;
        if (!ruleset_may_show_below(f->rules, child))
            return 0;
    }
    len = push(w->g, name);
    r = remove_below(w, fd, name, child, depth + 1);
    pop(w->g, len);
    return r;
}

static int remove_children(struct removal_walk *w, int dirfd, const char *name, struct place *place, unsigned depth)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        r = -errno;
        if (fd >= 0)
            close(fd);
        return r;
    }
    for (const struct dirent *d; r == 0 && (d = readdir(dir));) {
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            r = remove_child(w, fd, d->d_name, place, depth);
    }
    closedir(dir);
    return r;
}

/* The path of `g` is that of the name. A hidden directory comes here for what may be visible in it, and stays. */
static int remove_below(struct removal_walk *w, int dirfd, const char *name, struct place *place, unsigned depth)
{
    struct handover_change change = { .kind = HANDOVER_REMOVED, .from_fd = -1, .changed_ns = w->removed_ns };
    bool is_visible = need_check(NEED_LOOKUP, place_level(place), false) == 0;
    struct stat st;
    int r;

    if (depth > FILE_WALK_DEPTH_MAX)
        return -ENAMETOOLONG;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (S_ISDIR(st.st_mode)) {
        struct removal_walk inner = { .g = w->g, .removed_ns = w->removed_ns };
        r = remove_children(&inner, dirfd, name, place, depth);
        w->has_hidden |= inner.has_hidden;
        w->has_newer |= inner.has_newer;
        if (r < 0 || inner.has_hidden || inner.has_newer || !is_visible)
            return r;
    } else if (!is_visible) {
        return 0;
    } else if (depth > 0 && ns_of(st.st_ctim) > w->removed_ns) {
        w->has_newer = true;
        return 0;
    }
    change.was = was_of_stat(&st);
    if (depth == 0 && !S_ISDIR(st.st_mode))
        change.was = was_at(w->g, &(struct below){ .fd = dirfd }, &st);
    emit(w->g, &change);
    return 0;
}

static int on_marker(struct gather *g, struct inode *dir, const struct below *below, const struct found *it)
{
    char marker[NAME_MAX + 1];
    struct removal_walk w = { .g = g };
    struct stat st, base;
    struct handover_item *item;
    size_t len;
    int r;

    item = add_item(g, HANDOVER_ITEM_MARKER, dir, it);
    if (!stat_base(below, it->name, &base))
        return 0;
    whiteout_name(it->name, marker);
    len = g->path.len - strlen(it->name);
    autofree char *at = xprintf("%.*s%s", (int) len, g->path.data, marker);
    if (fstatat(g->f->data_fd, at, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    w.removed_ns = ns_of(st.st_ctim);
    r = remove_below(&w, below->fd, it->name, it->place, 0);
    item->is_blocked = w.has_hidden && !w.has_newer;
    item->count = g->list->count - item->first;
    return r;
}

/* ---- what is there ---- */

static int on_file(struct gather *g, struct inode *dir, const struct below *below, const struct found *it)
{
    struct handover_change change = { .kind = HANDOVER_FILE, .from_fd = g->f->data_fd };
    struct handover_item *item;
    struct stat st, base;
    bool in_base = stat_base(below, it->name, &base);
    int r = 0;

    if (fstatat(g->f->data_fd, g->path.data, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return 0;
    item = add_item(g, HANDOVER_ITEM_FILE, dir, it);
    item->bytes = quota_bytes_of(&st);
    change.mode = st.st_mode & 0777;
    change.changed_ns = ns_of(st.st_ctim) > g->moved_ns ? ns_of(st.st_ctim) : g->moved_ns;
    if (S_ISLNK(st.st_mode))
        change.kind = HANDOVER_SYMLINK;
    change.was = was_at(g, below, in_base ? &base : NULL);
    if (in_base && S_ISDIR(base.st_mode)) {
        struct removal_walk w = { .g = g, .removed_ns = change.changed_ns };
        r = remove_below(&w, below->fd, it->name, it->place, 0);
        /* What is in the way can't go: nor can this come. */
        if (r < 0 || w.has_hidden || w.has_newer) {
            item->is_blocked = true;
            return r;
        }
        change.was.kind = HANDOVER_WAS_UNKNOWN;
    }
    emit(g, &change);
    item->first = g->list->count - 1;
    item->count = 1;
    return 0;
}

static int collect(struct gather *g, struct inode *dir, const struct below *below);

/* As long as nothing is in it, one that a rule asked for is no change. */
static bool is_promised(const struct gather *g)
{
    size_t len = g->path.len;

    for (const char *at = g->roots.data; at && *at;) {
        size_t n = strcspn(at, "\n");
        if (n >= len && memcmp(at, g->path.data, len) == 0 && (n == len || at[len] == '/'))
            return true;
        at += n + (at[n] == '\n');
    }
    return false;
}

/* A directory that was deleted with the one it is in, and stays in the base for what is hidden in it. */
static int remove_or_veil(struct gather *g, struct inode *dir, const struct below *in, int fd, const char *name,
                          struct place *place)
{
    struct removal_walk w = { .g = g, .removed_ns = in->cover_ns };
    autoptr(place) child = ruleset_step(g->f->rules, place, name, strlen(name));
    bool is_visible = need_check(NEED_LOOKUP, place_level(child), false) == 0;
    int r = remove_child(&w, fd, name, place, 0);

    if (r == 0 && is_visible && w.has_hidden && !w.has_newer) {
        struct found it = { .name = (char *) (uintptr_t) name };
        size_t len = push(g, name);
        add_item(g, HANDOVER_ITEM_VEIL, dir, &it);
        pop(g, len);
    }
    return r;
}

/* What the base has in an opaque directory and the delta has not. */
static int remove_uncovered(struct gather *g, struct inode *inode, const struct below *in, const struct found *it)
{
    int fd = openat(in->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        r = -errno;
        if (fd >= 0)
            close(fd);
        return r;
    }
    for (const struct dirent *d; r == 0 && (d = readdir(dir));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        tree_lock(g->f);
        const struct entry *e = entry_find(inode, d->d_name, strlen(d->d_name));
        bool is_up = e && (e->flags & ENTRY_UP);
        tree_unlock(g->f);
        if (!is_up)
            r = remove_or_veil(g, inode, in, fd, d->d_name, it->place);
    }
    closedir(dir);
    return r;
}

static int64_t cover_time(struct gather *g, int64_t otherwise_ns)
{
    autofree char *at = xprintf("%s/" WHITEOUT_OPAQUE, g->path.data);
    struct stat st;

    return fstatat(g->f->data_fd, at, &st, AT_SYMLINK_NOFOLLOW) == 0 ? ns_of(st.st_ctim) : otherwise_ns;
}

static void emit_dir(struct gather *g, enum handover_kind kind, const struct stat *st, struct handover_was was)
{
    struct handover_change change = { .kind = kind, .mode = st->st_mode & 0777, .from_fd = -1, .was = was };

    change.changed_ns = ns_of(st->st_ctim);
    emit(g, &change);
}

static int enter_dir(struct gather *g, const struct below *below, const struct found *it, struct inode *inode, struct below *in)
{
    struct stat st, base;
    bool in_base = stat_base(below, it->name, &base);
    struct handover_was absent = { .kind = HANDOVER_WAS_ABSENT };

    if (fstatat(g->f->data_fd, g->path.data, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!inode_has(inode, INODE_BASE))
        in->cover_ns = cover_time(g, ns_of(st.st_ctim));
    if (in_base && !S_ISDIR(base.st_mode)) {
        struct handover_change gone = { .kind = HANDOVER_REMOVED, .from_fd = -1, .changed_ns = ns_of(st.st_ctim) };
        gone.was = was_at(g, below, &base);
        emit(g, &gone);
        in_base = false;
    }
    if (!in_base && is_promised(g)) {
        vec_room(&g->promised, &g->promised_cap, g->promised_count);
        g->promised[g->promised_count++] = (struct promise){ g->path.len, st.st_mode & 0777 };
        return 0;
    }
    if (!in_base) {
        emit_dir(g, HANDOVER_DIR, &st, absent);
        return 0;
    }
    if ((st.st_mode ^ base.st_mode) & 0777)
        emit_dir(g, HANDOVER_MODE, &st, was_of_stat(&base));
    in->fd = openat(below->fd, it->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return in->fd < 0 ? -errno : 0;
}

static int on_dir(struct gather *g, struct inode *dir, const struct below *below, const struct found *it)
{
    struct below in = { .fd = -1 };
    int64_t moved_ns = g->moved_ns;
    size_t promised = g->promised_count, index;
    struct handover_item *item;
    int r;

    if (it->inode->dir->moved_ns > g->moved_ns)
        g->moved_ns = it->inode->dir->moved_ns;
    item = add_item(g, HANDOVER_ITEM_DIR, dir, it);
    item->is_opaque = !inode_has(it->inode, INODE_BASE);
    index = g->list->item_count - 1;
    r = enter_dir(g, below, it, it->inode, &in);
    g->list->items[index].count = g->list->count - g->list->items[index].first;
    if (r == 0 && in.fd >= 0 && in.cover_ns)
        r = remove_uncovered(g, it->inode, &in, it);
    if (r == 0)
        r = collect(g, it->inode, &in);
    /* Still promised only: nothing was in it. */
    if (g->promised_count > promised) {
        g->promised_count = promised;
        g->list->items[index].is_blocked = true;
    }
    if (in.fd >= 0)
        close(in.fd);
    g->moved_ns = moved_ns;
    return r;
}

static int cmp_found(const void *a, const void *b)
{
    return strcmp(((const struct found *) a)->name, ((const struct found *) b)->name);
}

/* What the delta has under names of the directory, sorted, so that two looks at the same tree give the same list. */
static void look(struct fence *f, struct inode *dir, struct founds *list)
{
    tree_lock(f);
    for (uint32_t i = 0; i < dir->dir->bucket_count; i++) {
        for (struct entry *e = dir->dir->buckets[i]; e; e = e->bucket_next) {
            if (!e->flags)
                continue;
            vec_room(&list->items, &list->cap, list->count);
            list->items[list->count++] = (struct found){ xdup(e->name), e->flags, e->type, place_ref(e->place), e->inode };
            if (e->inode)
                inode_ref(e->inode);
        }
    }
    tree_unlock(f);
    if (list->count > 0)
        qsort(list->items, list->count, sizeof(*list->items), cmp_found);
}

static void founds_done(struct fence *f, struct founds *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].name);
        place_unref(list->items[i].place);
        inode_unref(f, list->items[i].inode);
    }
    free(list->items);
}

static int on_found(struct gather *g, struct inode *dir, const struct below *below, struct found *it)
{
    int r;

    if (it->flags & ENTRY_WHITEOUT)
        return on_marker(g, dir, below, it);
    if (it->type != DT_DIR && !(it->inode && inode_is_dir(it->inode)))
        return on_file(g, dir, below, it);
    if (!it->inode) {
        r = resolve_name(g->f, dir, it->name, it->place, false, &it->inode, NULL);
        if (r < 0)
            return r;
    }
    return on_dir(g, dir, below, it);
}

static int collect(struct gather *g, struct inode *dir, const struct below *below)
{
    struct founds founds = { 0 };
    int r = 0;

    look(g->f, dir, &founds);
    for (size_t i = 0; r == 0 && i < founds.count; i++) {
        size_t len = push(g, founds.items[i].name);
        r = on_found(g, dir, below, &founds.items[i]);
        pop(g, len);
    }
    founds_done(g->f, &founds);
    return r;
}

/* A file whose names cannot all go stays whole: what is left in the delta would otherwise be the very file that the base has. */
static void block_linked(struct handover_list *list)
{
    for (size_t i = 0; i < list->item_count; i++) {
        struct handover_item *stays = &list->items[i];
        if (stays->kind != HANDOVER_ITEM_FILE || !stays->is_blocked || !stays->inode || !inode_has(stays->inode, INODE_LINKED))
            continue;
        for (size_t k = 0; k < list->item_count; k++) {
            if (list->items[k].inode == stays->inode)
                list->items[k].is_blocked = true;
        }
    }
}

/* Changes of what is blocked go from the list, and the others' indexes follow. */
static void leave_out_blocked(struct handover_list *list)
{
    autofree size_t *now_at = xalloc((list->count + 1) * sizeof(*now_at));
    autofree bool *goes = xalloc(list->count + 1);
    size_t kept = 0;

    for (size_t i = 0; i < list->item_count; i++) {
        const struct handover_item *item = &list->items[i];
        if (item->kind == HANDOVER_ITEM_FILE && item->is_blocked && item->count > 0)
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
        struct handover_item *item = &list->items[i];
        if (item->kind == HANDOVER_ITEM_FILE && item->is_blocked)
            item->count = 0;
        if (item->count > 0)
            item->first = now_at[item->first];
    }
}

int handover_list_fill(struct fence *f, struct handover_list *list)
{
    struct gather g = { .f = f, .list = list };
    struct below below = { .fd = f->base_fd };
    int r;

    if (file_read(f->meta_fd, "roots", 1 << 20, &g.roots) < 0)
        buf_clear(&g.roots);
    buf_room(&g.path, 1);
    g.path.data[0] = 0;
    r = collect(&g, f->root, &below);
    if (r == 0) {
        block_linked(list);
        leave_out_blocked(list);
    }
    free(g.promised);
    buf_done(&g.path);
    buf_done(&g.roots);
    return r;
}
