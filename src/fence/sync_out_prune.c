#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/attr.h"
#include "fence/base_origin.h"
#include "fence/base_stamp.h"
#include "fence/casefold.h"
#include "fence/copyup.h"
#include "fence/handle.h"
#include "fence/ino_map.h"
#include "fence/inode.h"
#include "fence/layer.h"
#include "fence/passage.h"
#include "fence/quota.h"
#include "fence/remove.h"
#include "fence/sync_out_int.h"
#include "fence/whiteout.h"
#include "fence/xattr.h"

#define INTENT "handover"
#define INTENT_BYTES_MAX (256u << 20)

/*
 * Removing changes from the delta when the base has them all.
 *
 * A process that is killed meanwhile must leave a delta that shows the same tree over the new base. Files are removed one by
 * one: the base has the same under their names. A marker over a name that the base does not have does no harm, and goes with
 * the next sync-out. A directory that the base has too is removed when it is empty. Only the opaque mark must not remain on a
 * directory whose files were applied: so these marks go first, and an intent in meta/handover, written before `apply`, makes
 * the next mount remove them.
 */

/* ---- the intent ---- */

/* 'f' and a path for each file to be applied, 'w' for each name that needs a marker, 'd' for each opaque directory, each
 * NUL-terminated. */
int sync_out_begin(struct fence *f, const struct sync_out_list *list)
{
    static const char letters[] = { [SYNC_OUT_ITEM_HIDE] = 'w', [SYNC_OUT_ITEM_DIR] = 'd' };
    autodone(buf) struct buf text = BUF_EMPTY;

    for (size_t i = 0; i < list->item_count; i++) {
        const struct sync_out_item *item = &list->items[i];
        if (item->kind != SYNC_OUT_ITEM_HIDE && (item->kind != SYNC_OUT_ITEM_DIR || !item->is_opaque || item->is_blocked))
            continue;
        buf_add_char(&text, letters[item->kind]);
        buf_add(&text, item->path, strlen(item->path) + 1);
    }
    if (text.len == 0)
        return 0;
    for (size_t i = 0; i < list->count; i++) {
        if (list->changes[i].from_fd < 0)
            continue;
        buf_add_char(&text, 'f');
        buf_add(&text, list->changes[i].path, strlen(list->changes[i].path) + 1);
    }
    return file_put(f->meta_fd, INTENT, text.data, text.len, 0600);
}

void sync_out_end(struct fence *f)
{
    fault("handover-dropped");
    unlinkat(f->meta_fd, INTENT, 0);
}

static int hide_in_base(struct fence *f, const char *path)
{
    autofd int dir = -1;
    const char *name;
    int r = path_open_parent_beneath(f->data_fd, path, &dir, &name);

    if (r < 0)
        return r == -ENOENT ? 0 : r;
    return whiteout_create(f, dir, name);
}

static int show_base_through(struct fence *f, const char *path)
{
    autofd int fd = path_open_beneath(f->data_fd, path, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    return unlinkat(fd, WHITEOUT_OPAQUE, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* Either all were applied or none. */
int sync_out_recover(struct fence *f)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    bool was_taken = false;
    int r = f->syncs_out ? file_read(f->meta_fd, INTENT, INTENT_BYTES_MAX, &text) : -ENOENT;

    if (r < 0)
        return r == -ENOENT ? 0 : r;
    for (size_t at = 0; at < text.len && !was_taken; at += strlen(text.data + at) + 1) {
        autofd int fd = text.data[at] == 'f' ? path_open_beneath(f->data_fd, text.data + at + 1, O_PATH, 0) : -1;
        was_taken = text.data[at] == 'f' && fd < 0;
    }
    for (size_t at = 0; was_taken && r == 0 && at < text.len; at += strlen(text.data + at) + 1)
        r = text.data[at] == 'w' ? hide_in_base(f, text.data + at + 1) : 0;
    for (size_t at = 0; was_taken && r == 0 && at < text.len; at += strlen(text.data + at) + 1)
        r = text.data[at] == 'd' ? show_base_through(f, text.data + at + 1) : 0;
    if (r == 0)
        unlinkat(f->meta_fd, INTENT, 0);
    return r;
}

/* ---- names that lead to something else now ---- */

static void prune_add_inval(struct fence *f, struct inval_batch *batch, struct inode *dir, const char *name,
                            struct inode *inode)
{
    inval_batch_add_name(f, batch, dir, name, inode && inode_is_dir(inode));
    if (inode)
        inval_batch_add_pages(f, batch, inode);
    inval_batch_add_listing(f, batch, dir);
    tree_lock(f);
    dir->dir->version++;
    tree_unlock(f);
}

/* Follows the path as far as it is loaded: the kernel knows nothing beyond that. */
static void prune_add_path_inval(struct fence *f, struct inval_batch *batch, const char *path)
{
    struct inode *dir = f->root, *inode = NULL;
    char name[NAME_MAX + 1];

    tree_lock(f);
    for (;;) {
        size_t len = strcspn(path, "/");
        const struct entry *e = len <= NAME_MAX ? entry_find(dir, path, len) : NULL;
        memcpy(name, path, len <= NAME_MAX ? len : 0);
        name[len <= NAME_MAX ? len : 0] = 0;
        path += len;
        inode = e ? e->inode : NULL;
        if (!*path || !inode || !inode->dir)
            break;
        path++;
        dir = inode;
    }
    inode_ref(dir);
    if (inode)
        inode_ref(inode);
    dir->dir->mtime_ns = dir->dir->ctime_ns = clock_wall_ns();
    tree_unlock(f);
    prune_add_inval(f, batch, dir, name, inode);
    inode_unref(f, dir);
    inode_unref(f, inode);
}

/* ---- removing items ---- */

static bool item_has_outcome(const struct sync_out_list *list, const struct sync_out_item *item, enum sync_out_outcome outcome)
{
    for (size_t i = 0; i < item->count; i++) {
        if (list->changes[item->first + i].outcome == outcome)
            return true;
    }
    return false;
}

/* [locked] The content is the base's from now on. Descriptors of the delta's file, which may be the base's by now, must be
 * closed: the next write would go there. */
static void inode_become_base(struct inode *inode, const struct stat *base)
{
    inode_set(inode, INODE_BASE);
    inode_clear(inode, INODE_UP | INODE_FRESH | INODE_LINKED);
    atomic_store(&inode->mode, (uint16_t) (base->st_mode & (S_IFMT | 01777)));
    atomic_store(&inode->base_stamp, base_stamp_of(base));
    inode->log_mark = 0;
}

/* Keeps a file open that lost its name to nothing, or to something of another kind. It goes on without a name, in a copy,
 * because the original belongs to others by now. */
static bool keep_without_name(struct fence *f, struct inode *inode, const char *path)
{
    autofd int from = -1, to = -1;
    struct handle *h = handle_get_cached(f, inode, LAYER_DELTA);

    if (!S_ISREG(atomic_load(&inode->mode)))
        return false;
    from = h ? fcntl(h->fd, F_DUPFD_CLOEXEC, 3) : path_open_beneath(f->data_fd, path, O_RDONLY | O_NONBLOCK, 0);
    handle_put(f, h);
    to = openat(f->work_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    handle_evict(f, inode, LAYER_DELTA);
    if (from < 0 || to < 0 || copyup_content(from, to, INT64_MAX) < 0)
        return false;
    handle_put(f, handle_take(f, inode, LAYER_DELTA, steal_fd(&to)));
    handle_pin(f, inode, LAYER_DELTA);
    return true;
}

static void prune_forget_entry(struct fence *f, const struct sync_out_item *item, struct inode *stays, const struct stat *base)
{
    tree_lock(f);
    struct entry *e = entry_find(item->dir, item->name, strlen(item->name));
    if (e) {
        e->flags = 0;
        if (stays)
            inode_become_base(stays, base);
        else
            entry_unbind(f, e);
        entry_free_unused(f, e);
    }
    tree_unlock(f);
}

static void prune_file(struct fence *f, const struct sync_out_list *list, const struct sync_out_item *item,
                       struct inval_batch *batch)
{
    struct inode *inode = item->inode;
    bool splits = inode_has_several_names(f, inode), in_base; /* this name becomes a file of its own */
    struct stat base;

    in_base = layer_stat_base(f, item->path, &base);
    bool fits = inode && in_base && (base.st_mode & S_IFMT) == (atomic_load(&inode->mode) & S_IFMT);
    bool looks_other = fits && ((base.st_mode ^ atomic_load(&inode->mode)) & 0777) && !S_ISLNK(base.st_mode);
    bool lives_on = inode && !fits && !splits && keep_without_name(f, inode, item->path);
    path_unlink_beneath(f->data_fd, item->path, 0);
    if (inode && fits)
        handle_evict(f, inode, LAYER_DELTA);
    quota_release(&f->quota, splits || lives_on ? 0 : item->bytes, 1);
    if (lives_on)
        quota_add_dead(&f->quota, (int64_t) item->bytes);
    if (splits || !in_base)
        ino_map_set(f, item->dir, item->name, 0);
    prune_forget_entry(f, item, fits && !splits ? inode : NULL, &base);
    if (splits || looks_other || (inode && !fits))
        prune_add_inval(f, batch, item->dir, item->name, inode);
    if (item_has_outcome(list, item, SYNC_OUT_LOST))
        prune_add_path_inval(f, batch, item->path);
}

/* What the base still has there was changed too late to be deleted, or won. */
static void prune_marker(struct fence *f, const struct sync_out_item *item, struct inval_batch *batch)
{
    autofd int dir = -1;
    const char *name;
    struct stat base;

    if (path_open_parent_beneath(f->data_fd, item->path, &dir, &name) < 0 || whiteout_remove(dir, name) < 0)
        return;
    quota_release(&f->quota, 0, 1);
    prune_forget_entry(f, item, NULL, NULL);
    base_origin_forget(f, item->path);
    if (layer_stat_base(f, item->path, &base))
        prune_add_path_inval(f, batch, item->path);
}

/* Somebody else's newer file is there instead. */
static void prune_lost_dir(struct fence *f, const struct sync_out_item *item)
{
    if (path_unlink_beneath(f->data_fd, item->path, AT_REMOVEDIR) < 0)
        return;
    handle_evict(f, item->inode, LAYER_DELTA);
    quota_release(&f->quota, 0, 1);
    remove_from_tree(f, item->dir, item->name, false);
}

/* The base keeps no xattrs of directories, so one that has any stays in the delta. A directory also stays if it contains
 * markers, FIFOs or items that were left, or has a mode that the base did not take. */
static void prune_dir(struct fence *f, const struct sync_out_list *list, const struct sync_out_item *item)
{
    struct inode *inode = item->inode;
    autofd int fd = path_open_beneath(f->data_fd, item->path, O_RDONLY | O_DIRECTORY, 0);
    struct stat base, st;
    int64_t mtime_ns;

    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    bool in_base = layer_stat_base(f, item->path, &base);
    if (in_base && !S_ISDIR(base.st_mode) && item_has_outcome(list, item, SYNC_OUT_LOST)) {
        prune_lost_dir(f, item);
        return;
    }
    if (!in_base || !S_ISDIR(base.st_mode) || !inode_has(inode, INODE_BASE))
        return;
    if (((st.st_mode ^ base.st_mode) & 0777) || (st.st_mode & S_ISGID) || xattr_any(fd)) {
        attr_restore_dir_times(f, inode, fd);
        return;
    }
    if (path_unlink_beneath(f->data_fd, item->path, AT_REMOVEDIR) < 0) {
        attr_restore_dir_times(f, inode, fd);
        return;
    }
    handle_evict(f, inode, LAYER_DELTA);
    quota_release(&f->quota, 0, 1);
    tree_lock(f);
    mtime_ns = inode->dir->mtime_ns;
    inode->dir->moved_ns = 0;
    struct entry *e = entry_find(item->dir, item->name, strlen(item->name));
    if (e)
        e->flags = 0;
    inode_clear(inode, INODE_UP | INODE_FRESH);
    atomic_store(&inode->mode, (uint16_t) (base.st_mode & (S_IFMT | 01777)));
    atomic_store(&inode->base_stamp, base_stamp_of(&base));
    tree_unlock(f);
    base_origin_forget(f, item->path);
    ino_map_keep_time(f, inode->ino, mtime_ns);
}

/* The base has a directory there now, in which everything visible to the sandbox is its own. */
static void prune_open_dir(struct fence *f, const struct sync_out_item *item)
{
    struct stat base;
    autofd int fd = -1;

    if (!item->is_opaque || item->is_blocked || !layer_stat_base(f, item->path, &base) || !S_ISDIR(base.st_mode))
        return;
    fd = path_open_beneath(f->data_fd, item->path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 || (unlinkat(fd, WHITEOUT_OPAQUE, 0) < 0 && errno != ENOENT))
        return;
    atomic_store(&item->inode->base_stamp, base_stamp_of(&base));
    inode_set(item->inode, INODE_BASE);
}

/* Call before the directory is opened. */
static void prune_hide_name(struct fence *f, const struct sync_out_item *item)
{
    size_t len = strlen(item->name);
    autoptr(match_state) at = inode_dup_match_state(f, item->dir);

    if (!at || hide_in_base(f, item->path) < 0)
        return;
    quota_add(&f->quota, 0, 1);
    tree_lock(f);
    struct entry *e = entry_find(item->dir, item->name, len);
    if (!e)
        e = entry_add(item->dir, item->name, len, ruleset_step(f->rules, at, item->name, len),
                      inode_number_of(item->dir->ino, item->name, len));
    e->flags |= ENTRY_WHITEOUT;
    tree_unlock(f);
}

void sync_out_prune(struct fence *f, struct sync_out_list *list, struct inval_batch *batch)
{
    for (size_t i = 0; i < list->item_count; i++) {
        if (list->items[i].kind == SYNC_OUT_ITEM_HIDE)
            prune_hide_name(f, &list->items[i]);
    }
    for (size_t i = 0; i < list->item_count; i++) {
        if (list->items[i].kind == SYNC_OUT_ITEM_DIR)
            prune_open_dir(f, &list->items[i]);
    }
    fault("handover-opened");
    for (size_t i = 0; i < list->item_count; i++) {
        const struct sync_out_item *item = &list->items[i];
        if (item->is_blocked || item_has_outcome(list, item, SYNC_OUT_LEFT))
            continue;
        if (item->kind == SYNC_OUT_ITEM_FILE)
            prune_file(f, list, item, batch);
        else if (item->kind == SYNC_OUT_ITEM_MARKER)
            prune_marker(f, item, batch);
    }
    fault("handover-emptied");
    for (size_t i = list->item_count; i-- > 0;) {
        if (list->items[i].kind == SYNC_OUT_ITEM_DIR)
            prune_dir(f, list, &list->items[i]);
    }
    for (size_t i = 0; i < list->count; i++) {
        const struct sync_out_change *change = &list->changes[i];
        if (change->outcome != SYNC_OUT_LEFT)
            base_origin_forget(f, change->path);
        /* No file: something becomes visible again. */
        if (change->outcome == SYNC_OUT_LOST && change->from_fd < 0)
            prune_add_path_inval(f, batch, change->path);
    }
    attr_restore_dir_times(f, f->root, f->data_fd);
    if (batch->name_count > 0)
        passages_forget_absent(f);
}
