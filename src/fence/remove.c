#include "fence/remove.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "fence/attr.h"
#include "fence/base_origin.h"
#include "fence/change_log.h"
#include "fence/copyup.h"
#include "fence/guard.h"
#include "fence/handle.h"
#include "fence/hidden_children.h"
#include "fence/ino_map.h"
#include "fence/inode.h"
#include "fence/layer.h"
#include "fence/merge.h"
#include "fence/ops.h"
#include "fence/quota.h"
#include "fence/resolve.h"
#include "fence/whiteout.h"

/*
 * Removing a name. The delta's file is removed; the base's is covered by a marker. If both are needed the marker comes first:
 * from then on the name is gone, and a leftover in the delta is removed at the next mount.
 */

/* A second name in work, invisible to the sandbox, until the kernel forgets the file. */
static int remove_keep_by_name(struct fence *f, struct inode *inode, int dirfd, const char *name)
{
    char orphan[32];

    layer_orphan_name(inode, orphan);
    if (linkat(dirfd, name, f->work_fd, orphan, 0) < 0)
        return -errno;
    inode_set(inode, INODE_ORPHAN);
    return 0;
}

static bool is_last_name(struct fence *f, const struct inode *inode)
{
    bool last;

    tree_lock(f);
    last = !inode_has(inode, INODE_DEAD) && inode->names && !inode->names->name_next;
    tree_unlock(f);
    return last;
}

static bool has_many_pinned(struct fence *f)
{
    autolock(&f->handles.lock);
    return f->handles.pinned > f->handles.limit / 2;
}

/* An open file without a name stays readable by its descriptor or, if too many are kept like that, by a link in work. */
int remove_keep_content(struct fence *f, struct inode *inode, int dirfd, const char *name)
{
    struct handle *h;

    if (has_many_pinned(f))
        return remove_keep_by_name(f, inode, dirfd, name);
    h = handle_get_cached(f, inode, LAYER_DELTA);
    if (!h) {
        int fd = openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            return remove_keep_by_name(f, inode, dirfd, name);
        h = handle_take(f, inode, LAYER_DELTA, fd);
    }
    handle_pin(f, inode, LAYER_DELTA);
    handle_put(f, h);
    return 0;
}

int remove_keep_open(struct fence *f, struct inode *inode, int dirfd, const char *name)
{
    if (inode_is_dir(inode) || !inode_has(inode, INODE_UP) || !S_ISREG(atomic_load(&inode->mode)) || !is_last_name(f, inode))
        return 0;
    return remove_keep_content(f, inode, dirfd, name);
}

void remove_count_dead(struct fence *f, struct inode *inode)
{
    struct handle *h;
    struct stat st;

    if (!inode_has(inode, INODE_DEAD) || !inode_has(inode, INODE_UP) || !S_ISREG(atomic_load(&inode->mode)))
        return;
    if (handle_get(f, inode, LAYER_DELTA, &h) < 0)
        return;
    if (fstat(h->fd, &st) == 0)
        quota_add_dead(&f->quota, (int64_t) quota_bytes_of(&st));
    handle_put(f, h);
}

/* Moves a directory of the delta, which may hold markers, out of sight in one step and then removes it. */
int remove_delta_dir(struct fence *f, int dirfd, const char *name)
{
    char temp[48];

    if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    snprintf(temp, sizeof(temp), "trash-%" PRIu64, atomic_fetch_add(&f->temp_counter, 1));
    if (renameat(dirfd, name, f->work_fd, temp) < 0)
        return -errno;
    fault("rmdir-moved");
    return file_remove_tree(f->work_fd, temp);
}

struct name_removal {
    struct inode *inode; /* owned reference */
    struct handle *dir;  /* owned reference; NULL if the delta needs no change */
    bool in_base;
    bool is_up;
    bool is_gone;
    struct stat base; /* if in_base */
    struct hidden_children hidden;
};

static void name_removal_end(struct fence *f, struct inode *dir, struct name_removal *re)
{
    dir_unlock(f, dir);
    handle_put(f, re->dir);
    if (re->is_up)
        remove_count_dead(f, re->inode);
    if (re->is_gone)
        hidden_children_release(f, &re->hidden);
    hidden_children_done(f, &re->hidden);
    inode_unref(f, re->inode);
}

/* Looks at the layers before the stripe is taken. */
static int check_removable_kind(struct fence *f, struct inode *inode, bool wants_dir)
{
    if (!wants_dir)
        return inode_is_dir(inode) ? -EISDIR : 0;
    if (!inode_is_dir(inode))
        return -ENOTDIR;
    return merge_shows_any(f, inode) ? -ENOTEMPTY : 0;
}

static int name_removal_begin(struct fence *f, struct inode *dir, const char *name, struct match_state *match, bool wants_dir,
                              struct name_removal *re)
{
    int r;

    *re = (struct name_removal){ 0 };
    r = resolve_name(f, dir, name, match, false, &re->inode, NULL);
    if (r < 0)
        return r;
    r = check_removable_kind(f, re->inode, wants_dir);
    if (r == 0)
        r = layer_base_has(f, dir, name, &re->base);
    re->in_base = r > 0;
    if (r >= 0)
        r = copyup_dir(f, dir);
    if (r == 0)
        r = handle_get(f, dir, LAYER_DELTA, &re->dir);
    if (r < 0) {
        inode_unref(f, re->inode);
        return r;
    }
    hidden_children_collect(f, re->inode, &re->hidden);
    dir_lock(f, dir);
    tree_lock(f);
    const struct entry *e = entry_find(dir, name, strlen(name));
    re->is_up = e && (e->flags & ENTRY_UP);
    r = e && e->inode == re->inode ? 0 : -ENOENT;
    tree_unlock(f);
    if (r < 0)
        name_removal_end(f, dir, re);
    return r;
}

/* Bytes are released when no process can read them any more (inode.c), a name at once. */
void remove_from_tree(struct fence *f, struct inode *dir, const char *name, bool leaves_marker)
{
    bool was_up = false;

    tree_lock(f);
    struct entry *e = entry_find(dir, name, strlen(name));
    if (e) {
        was_up = e->flags & ENTRY_UP;
        e->flags = leaves_marker ? ENTRY_WHITEOUT : 0;
        inode_ref(dir);
        if (e->inode && e->inode->dir)
            tree_purge_below(f, e->inode);
        entry_unbind(f, e);
        entry_free_unused(f, e);
        inode_unref_locked(f, dir);
    }
    tree_unlock(f);
    if (was_up || ino_map_keeps(f, dir, name))
        ino_map_set(f, dir, name, 0);
}

static int name_removal_perform(struct fence *f, struct inode *dir, const char *name, struct name_removal *re)
{
    int r = 0;

    if (re->is_up)
        r = remove_keep_open(f, re->inode, re->dir->fd, name);
    if (r == 0 && re->in_base) {
        base_origin_note(f, dir, name, &re->base);
        r = whiteout_create(f, re->dir->fd, name);
        fault("unlink-marked");
    }
    if (r < 0)
        return r;
    if (re->is_up && inode_is_dir(re->inode))
        r = remove_delta_dir(f, re->dir->fd, name);
    else if (re->is_up && unlinkat(re->dir->fd, name, 0) < 0)
        r = -errno;
    fault("unlink-removed");
    /* With the marker the name is gone even if the rest failed. */
    if (r < 0 && !re->in_base)
        return r;
    remove_from_tree(f, dir, name, re->in_base);
    quota_add(&f->quota, 0, (re->in_base ? 1 : 0) - (re->is_up ? 1 : 0));
    re->is_gone = true;
    attr_touch_dir(f, dir, re->dir->fd);
    return 0;
}

int remove_keep_covered(struct fence *f, struct inode *inode)
{
    struct handle *h;
    struct stat st;
    char kept[32];
    int r;

    if (!f->is_live || inode_has(inode, INODE_UP) || !S_ISREG(atomic_load(&inode->mode)))
        return 0;
    r = handle_get(f, inode, LAYER_BASE, &h);
    if (r < 0)
        return r;
    r = fstat(h->fd, &st) < 0 ? -errno : change_log_keep_pre_image(f, h->fd, kept);
    if (r == 0)
        change_log_add_copyup(f, inode, &st, h, kept);
    handle_put(f, h);
    return r;
}

static int op_remove_name(struct fence *f, const struct op_caller *who, enum policy_op op, struct inode *dir, const char *name)
{
    autoptr(match_state) match = NULL;
    struct name_removal re;
    int r = guard_name(f, op, dir, name, who, &match);

    if (r < 0)
        return r;
    r = name_removal_begin(f, dir, name, match, op == POLICY_OP_RMDIR, &re);
    if (r < 0)
        return r;
    r = re.in_base ? remove_keep_covered(f, re.inode) : 0;
    if (r == 0)
        r = name_removal_perform(f, dir, name, &re);
    name_removal_end(f, dir, &re);
    if (r == 0)
        change_log_add_name(f, CHANGE_LOG_DELETED, dir, name, NULL, who);
    return r;
}

int op_unlink(struct fence *f, const struct op_caller *who, struct inode *dir, const char *name)
{
    return op_remove_name(f, who, POLICY_OP_UNLINK, dir, name);
}

/* Hidden children do not prevent the removal: the sandbox could not know why. The base's stay where they are, behind the
 * marker. */
int op_rmdir(struct fence *f, const struct op_caller *who, struct inode *dir, const char *name)
{
    return op_remove_name(f, who, POLICY_OP_RMDIR, dir, name);
}
