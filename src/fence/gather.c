#include "fence/gather.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "fence/inode.h"
#include "fence/origin.h"

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
void gather_change(struct gather *g, const struct handover_change *change)
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

struct handover_item *gather_item(struct gather *g, enum handover_item_kind kind, struct inode *dir, const struct found *it)
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

size_t gather_push(struct gather *g, const char *name)
{
    size_t len = g->path.len;

    if (len > 0)
        buf_add_char(&g->path, '/');
    buf_add_str(&g->path, name);
    return len;
}

void gather_pop(struct gather *g, size_t len)
{
    g->path.len = len;
    g->path.data[len] = 0;
}

bool below_stat(const struct below *below, const char *name, struct stat *ret)
{
    return below->fd >= 0 && fstatat(below->fd, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

struct handover_was gather_was_of(const struct stat *st)
{
    return (struct handover_was){ HANDOVER_WAS_THERE, st->st_ino, (uint64_t) st->st_size, gather_ns(st->st_mtim) };
}

/* Below a directory that was covered as a whole there is no origin of each name. What is there since before, was there. */
struct handover_was gather_was_at(struct gather *g, const struct below *below, const struct stat *base)
{
    struct origin origin;

    if (origin_find(g->f, g->path.data, &origin))
        return (struct handover_was){ HANDOVER_WAS_THERE, origin.ino, origin.size_bytes, origin.mtime_ns };
    if (base && below->cover_ns && gather_ns(base->st_ctim) <= below->cover_ns)
        return gather_was_of(base);
    return (struct handover_was){ .kind = HANDOVER_WAS_ABSENT };
}
