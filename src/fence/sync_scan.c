#include "fence/sync_scan.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "fence/base_origin.h"
#include "fence/inode.h"

static void add_change(struct sync_scan *g, const struct sync_out_change *change, size_t path_len)
{
    struct sync_out_list *list = g->list;

    vec_room(&list->changes, &list->cap, list->count);
    list->changes[list->count] = *change;
    list->changes[list->count].path = xdupn(g->path.data, path_len);
    if (change->from_fd >= 0)
        list->changes[list->count].name = list->changes[list->count].path;
    list->count++;
}

void sync_scan_change(struct sync_scan *g, const struct sync_out_change *change)
{
    for (size_t i = 0; i < g->promised_count; i++) {
        struct sync_out_change dir = { .kind = SYNC_OUT_DIR, .from_fd = -1, .changed_ns = change->changed_ns };
        dir.mode = g->promised[i].mode;
        dir.was.kind = SYNC_OUT_BASE_ABSENT;
        add_change(g, &dir, g->promised[i].path_len);
    }
    g->promised_count = 0;
    add_change(g, change, g->path.len);
}

struct sync_out_item *sync_scan_item(struct sync_scan *g, enum sync_out_item_kind kind, struct inode *dir,
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

size_t sync_scan_push(struct sync_scan *g, const char *name)
{
    size_t len = g->path.len;

    if (len > 0)
        buf_add_char(&g->path, '/');
    buf_add_str(&g->path, name);
    return len;
}

void sync_scan_pop(struct sync_scan *g, size_t len)
{
    g->path.len = len;
    g->path.data[len] = 0;
}

bool base_dir_stat(const struct base_dir *below, const char *name, struct stat *ret)
{
    return below->fd >= 0 && fstatat(below->fd, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

struct sync_out_base sync_scan_base_of(const struct stat *st)
{
    return (struct sync_out_base){ SYNC_OUT_BASE_PRESENT, st->st_ino, (uint64_t) st->st_size, sync_scan_ns(st->st_mtim) };
}

/* Below a directory that was covered as a whole no origins are recorded. What is there since before then was there. */
struct sync_out_base sync_scan_base_at(struct sync_scan *g, const struct base_dir *below, const struct stat *base)
{
    struct base_origin origin;

    if (base_origin_find(g->f, g->path.data, &origin))
        return (struct sync_out_base){ SYNC_OUT_BASE_PRESENT, origin.ino, origin.size_bytes, origin.mtime_ns };
    if (base && below->cover_ns && sync_scan_ns(base->st_ctim) <= below->cover_ns)
        return sync_scan_base_of(base);
    return (struct sync_out_base){ .kind = SYNC_OUT_BASE_ABSENT };
}
