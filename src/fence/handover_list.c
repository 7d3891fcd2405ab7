#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/gather.h"
#include "fence/inode.h"
#include "fence/quota.h"
#include "fence/resolve.h"
#include "fence/tried.h"
#include "fence/whiteout.h"

/*
 * What there is to hand over, from the entries in memory: the delta itself is only looked at where they say there is something.
 */
struct founds {
    struct found *items;
    size_t count, cap;
};

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

static int on_file(struct gather *g, struct inode *dir, const struct below *below, const struct found *it)
{
    struct handover_change change = { .kind = HANDOVER_FILE, .from_fd = g->f->data_fd };
    struct handover_item *item;
    struct stat st, base;
    bool in_base = below_stat(below, it->name, &base);
    int r = path_stat_beneath(g->f->data_fd, g->path.data, &st);

    if (r < 0) {
        if (r != -ENOENT || !in_base)
            return r;
        /* Taken the last time, when not all could be done and somebody else did the rest: it only has to be let go. */
        gather_item(g, HANDOVER_ITEM_FILE, dir, it);
        return 0;
    }
    if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return 0;
    item = gather_item(g, HANDOVER_ITEM_FILE, dir, it);
    item->bytes = quota_bytes_of(&st);
    change.mode = st.st_mode & 0777;
    change.changed_ns = tried_when_ns(g->f, g->path.data, &st);
    if (change.changed_ns < g->moved_ns)
        change.changed_ns = g->moved_ns;
    if (S_ISLNK(st.st_mode))
        change.kind = HANDOVER_SYMLINK;
    change.was = gather_was_at(g, below, in_base ? &base : NULL);
    if (in_base && S_ISDIR(base.st_mode)) {
        struct gone w = { .g = g, .removed_ns = change.changed_ns };
        r = gone_add(&w, below->fd, it->name, it->place, 0);
        /* What is in the way can't go: nor can this come. */
        if (r < 0 || w.has_hidden || w.has_newer) {
            item->is_blocked = true;
            return r;
        }
        change.was.kind = HANDOVER_WAS_UNKNOWN;
    }
    gather_change(g, &change);
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

/* One without the mark was made where the base had nothing: what has come there since is somebody else's, and not covered. */
static int64_t cover_time(struct gather *g)
{
    autofree char *at = xprintf("%s/" WHITEOUT_OPAQUE, g->path.data);
    struct stat st;

    return path_stat_beneath(g->f->data_fd, at, &st) == 0 ? gather_ns(st.st_ctim) : 0;
}

static void emit_dir(struct gather *g, enum handover_kind kind, const struct stat *st, struct handover_was was)
{
    struct handover_change change = { .kind = kind, .mode = st->st_mode & 0777, .from_fd = -1, .was = was };

    change.changed_ns = gather_ns(st->st_ctim);
    gather_change(g, &change);
}

static int enter_dir(struct gather *g, const struct below *below, const struct found *it, struct inode *inode, struct below *in)
{
    struct stat st, base;
    bool in_base = below_stat(below, it->name, &base);
    struct handover_was absent = { .kind = HANDOVER_WAS_ABSENT };
    int r = path_stat_beneath(g->f->data_fd, g->path.data, &st);

    if (r < 0)
        return r;
    if (!inode_has(inode, INODE_BASE))
        in->cover_ns = cover_time(g);
    if (in_base && !S_ISDIR(base.st_mode)) {
        struct handover_change gone = { .kind = HANDOVER_REMOVED, .from_fd = -1, .changed_ns = gather_ns(st.st_ctim) };
        gone.was = gather_was_at(g, below, &base);
        gather_change(g, &gone);
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
        emit_dir(g, HANDOVER_MODE, &st, gather_was_of(&base));
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
    item = gather_item(g, HANDOVER_ITEM_DIR, dir, it);
    item->is_opaque = !inode_has(it->inode, INODE_BASE);
    index = g->list->item_count - 1;
    r = enter_dir(g, below, it, it->inode, &in);
    g->list->items[index].count = g->list->count - g->list->items[index].first;
    if (r == 0 && in.fd >= 0 && in.cover_ns)
        r = gone_add_uncovered(g, it->inode, &in, it);
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
        return gone_add_marked(g, dir, below, it);
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
        size_t len = gather_push(g, founds.items[i].name);
        r = on_found(g, dir, below, &founds.items[i]);
        gather_pop(g, len);
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
