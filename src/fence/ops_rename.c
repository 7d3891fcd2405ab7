#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "fence/attr.h"
#include "fence/base_origin.h"
#include "fence/change_log.h"
#include "fence/copyup.h"
#include "fence/guard.h"
#include "fence/handle.h"
#include "fence/hidden_children.h"
#include "fence/ino_map.h"
#include "fence/inode.h"
#include "fence/journal.h"
#include "fence/layer.h"
#include "fence/merge.h"
#include "fence/ops.h"
#include "fence/quota.h"
#include "fence/remove.h"
#include "fence/resolve.h"
#include "fence/revalidate.h"
#include "fence/whiteout.h"

/*
 * Renaming.
 *
 * Both names need `write`. What is moved must be in the delta, so a file of the base is copied up first. A directory takes
 * everything below it to new paths, where other rules may hold: it moves only if everything in it is `write` at the old and at
 * the new path. For a directory that the base shows through, this must not depend on its content, which may be hidden: the
 * rules themselves must allow it for all names, otherwise EXDEV, and tools copy what they can see.
 *
 * In the usual case (nothing of the base at the old name, no marker at the new one) this is one rename(2). Otherwise the steps
 * go through the journal.
 */
struct rename_end {
    struct inode *dir; /* borrowed from the request */
    const char *name;
    struct match_state *match; /* owned */
    struct inode *inode;       /* owned reference; NULL: nothing is there */
    struct handle *delta;      /* owned reference; the directory in the delta */
    bool in_base;              /* the base has the name too */
    struct stat base;          /* then */
    bool base_is_dir;
    bool has_marker;
    bool is_up;
};

/* Drops the result of a look-up, so that it can be repeated. */
static void rename_end_forget(struct fence *f, struct rename_end *e)
{
    inode_unref(f, e->inode);
    handle_put(f, e->delta);
    e->inode = NULL;
    e->delta = NULL;
}

static void rename_end_done(struct fence *f, struct rename_end *e)
{
    match_state_unref(e->match);
    rename_end_forget(f, e);
}

static int rename_end_look(struct fence *f, struct rename_end *e, bool must_exist)
{
    int r = resolve_name(f, e->dir, e->name, e->match, false, &e->inode, NULL);

    if (r < 0 && (r != -ENOENT || must_exist))
        return r;
    r = layer_base_has(f, e->dir, e->name, &e->base);
    if (r < 0)
        return r;
    e->in_base = r;
    e->base_is_dir = r && S_ISDIR(e->base.st_mode);
    return 0;
}

static int rename_end_prepare(struct fence *f, struct rename_end *e)
{
    int r = copyup_dir(f, e->dir);

    if (r == 0)
        r = handle_get(f, e->dir, LAYER_DELTA, &e->delta);
    tree_lock(f);
    const struct entry *entry = entry_find(e->dir, e->name, strlen(e->name));
    e->has_marker = entry && (entry->flags & ENTRY_WHITEOUT);
    e->is_up = entry && (entry->flags & ENTRY_UP);
    tree_unlock(f);
    return r;
}

/* Checks that everything below is `write` at its path, and at the path that begins at `there`. */
struct write_check {
    struct fence *f;
    struct inode *dir;
    struct match_state *here, *there;
    unsigned depth; /* of the directory's new place */
};

static int is_write_below(struct write_check *t);

static int check_write_entry(const char *name, uint8_t type, void *cookie)
{
    struct write_check *t = cookie;
    size_t len = strlen(name);
    autoptr(match_state) here = ruleset_step(t->f->rules, t->here, name, len);
    autoptr(match_state) there = ruleset_step(t->f->rules, t->there, name, len);
    struct inode *inode;
    int r;

    (void) type;
    if (required_level_check(POLICY_OP_RENAME_FROM, match_state_level(here), false) < 0 ||
        required_level_check(POLICY_OP_RENAME_TO, match_state_level(there), false) < 0)
        return -EXDEV;
    r = resolve_name(t->f, t->dir, name, here, false, &inode, NULL);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    if (inode_is_dir(inode)) {
        struct write_check below = { t->f, inode, here, there, t->depth + 1 };
        r = is_write_below(&below);
    }
    inode_unref(t->f, inode);
    return r;
}

static int is_write_below(struct write_check *t)
{
    /* Repeated moves into one another could make directories too deep for recursion over the tree in memory. */
    if (t->depth > DEPTH_MAX)
        return -ENAMETOOLONG;
    return merge_each(t->f, t->dir, check_write_entry, t);
}

static int check_dir_moves(struct fence *f, struct rename_end *from, struct rename_end *to)
{
    struct write_check t = { f, from->inode, from->match, to->match, to->dir->depth + 1U };

    /* Below a directory that shows nothing of the base no directory shows anything of it. */
    if (inode_has(from->inode, INODE_BASE) &&
        (!ruleset_writes_all_below(f->rules, from->match) || !ruleset_writes_all_below(f->rules, to->match)))
        return -EXDEV;
    return is_write_below(&t);
}

/* Copies the source up, so that the delta has all of it. */
static int copy_up_source(struct fence *f, struct rename_end *from, struct rename_end *to)
{
    int r;

    if (!inode_is_dir(from->inode))
        return copyup_file(f, from->inode, INT64_MAX);
    r = check_dir_moves(f, from, to);
    if (r == 0)
        r = copyup_tree(f, from->inode);
    /* What covers a directory of the base must not merge with it. */
    if (r == 0 && to->base_is_dir) {
        struct handle *h;
        r = handle_get(f, from->inode, LAYER_DELTA, &h);
        if (r == 0) {
            r = whiteout_make_opaque(h->fd);
            attr_restore_dir_times(f, from->inode, h->fd);
            handle_put(f, h);
        }
    }
    fault("rename-up");
    return r;
}

static int check_rename_target(struct fence *f, struct rename_end *from, struct rename_end *to, unsigned flags)
{
    if (!to->inode)
        return flags & RENAME_EXCHANGE ? -ENOENT : 0;
    if (flags & RENAME_NOREPLACE)
        return -EEXIST;
    if (flags & RENAME_EXCHANGE)
        return 0;
    if (inode_is_dir(from->inode) != inode_is_dir(to->inode))
        return inode_is_dir(to->inode) ? -EISDIR : -ENOTDIR;
    return inode_is_dir(to->inode) && merge_shows_any(f, to->inode) ? -ENOTEMPTY : 0;
}

static int move_in_delta(struct fence *f, struct rename_end *from, struct rename_end *to)
{
    autodone(buf) struct buf here = BUF_EMPTY, there = BUF_EMPTY;
    bool to_is_up_dir = to->is_up && to->inode && inode_is_dir(to->inode);
    struct intent intent = { .whiteout_from = from->in_base, .revert_marker = to->has_marker, .clear_to = to_is_up_dir };
    int r;

    if (!intent.whiteout_from && !intent.revert_marker && !intent.clear_to)
        return renameat(from->delta->fd, from->name, to->delta->fd, to->name) < 0 ? -errno : 0;
    tree_path_of(f, from->dir, from->name, &here);
    tree_path_of(f, to->dir, to->name, &there);
    intent.from = here.data;
    intent.to = there.data;
    r = journal_begin(f, &intent);
    if (r == 0)
        r = journal_perform(f, &intent);
    journal_end(f);
    return r;
}

static void update_match_of(struct fence *f, struct entry *e, void *cookie)
{
    (void) cookie;
    entry_update_match(f, e);
}

/* Updates the states of the entry and of what lies below it. */
static void update_matches(struct fence *f, struct entry *e)
{
    entry_update_match(f, e);
    if (e->inode && e->inode->dir)
        tree_each_below(f, e->inode, update_match_of, NULL);
}

/* Records the time of the move, which changes what is below it too, without changing those files. */
static void note_renamed(struct inode *moved)
{
    if (moved->dir)
        moved->dir->moved_ns = moved->dir->ctime_ns = clock_wall_ns();
}

static void move_in_tree(struct fence *f, struct rename_end *from, struct rename_end *to)
{
    struct entry *old, *moved;

    remove_from_tree(f, to->dir, to->name, false);
    tree_lock(f);
    old = entry_find(from->dir, from->name, strlen(from->name));
    inode_ref(from->dir);
    entry_move(f, old, to->dir, to->name, strlen(to->name), &moved);
    moved->flags = ENTRY_UP;
    moved->type = old->type;
    update_matches(f, moved);
    note_renamed(from->inode);
    old->flags = from->in_base ? ENTRY_WHITEOUT : 0;
    entry_free_unused(f, old);
    inode_unref_locked(f, from->dir);
    tree_unlock(f);
    ino_map_set(f, from->dir, from->name, 0);
    ino_map_set(f, to->dir, to->name, from->inode->ino);
    quota_add(&f->quota, 0, (from->in_base ? 1 : 0) - (to->has_marker ? 1 : 0) - (to->is_up ? 1 : 0));
}

static void swap_in_tree(struct fence *f, struct rename_end *a, struct rename_end *b)
{
    tree_lock(f);
    struct entry *x = entry_find(a->dir, a->name, strlen(a->name)), *y = entry_find(b->dir, b->name, strlen(b->name));
    struct inode *from = x->inode, *to = y->inode;
    uint64_t ino = x->ino;
    uint8_t type = x->type;

    inode_ref(from);
    inode_ref(to);
    entry_unbind(f, x);
    entry_unbind(f, y);
    /* Being without a name for a moment did not make them dead. */
    tree_revive(f, from);
    tree_revive(f, to);
    x->ino = y->ino;
    x->type = y->type;
    y->ino = ino;
    y->type = type;
    entry_bind(x, to);
    entry_bind(y, from);
    if (to->names->name_next)
        inode_set(to, INODE_LINKED);
    if (from->names->name_next)
        inode_set(from, INODE_LINKED);
    update_matches(f, x);
    update_matches(f, y);
    note_renamed(from);
    note_renamed(to);
    inode_unref_locked(f, from);
    inode_unref_locked(f, to);
    tree_unlock(f);
    ino_map_set(f, a->dir, a->name, b->inode->ino);
    ino_map_set(f, b->dir, b->name, a->inode->ino);
}

static void rename_touch_dirs(struct fence *f, struct rename_end *from, struct rename_end *to)
{
    attr_touch_dir(f, from->dir, from->delta->fd);
    if (to->dir != from->dir)
        attr_touch_dir(f, to->dir, to->delta->fd);
}

/* [directories locked] The thread that watches the base may have detached a name since it was looked up, because the base has
 * another file there, or none: what was copied up is then a file without a name. */
static bool rename_end_is_valid(struct fence *f, const struct rename_end *e)
{
    tree_lock(f);
    const struct entry *entry = entry_find(e->dir, e->name, strlen(e->name));
    bool is_there = entry && entry->inode == e->inode && (entry->flags & ENTRY_UP);
    tree_unlock(f);
    return is_there;
}

static int rename_replace(struct fence *f, struct rename_end *from, struct rename_end *to)
{
    struct hidden_children hidden;
    int r;

    hidden_children_collect(f, to->inode, &hidden);
    dir_lock_two(f, from->dir, to->dir);
    r = rename_end_is_valid(f, from) ? 0 : -EAGAIN;
    if (r == 0 && to->inode && to->is_up)
        r = remove_keep_open(f, to->inode, to->delta->fd, to->name);
    if (r == 0)
        r = move_in_delta(f, from, to);
    if (r == 0) {
        move_in_tree(f, from, to);
        rename_touch_dirs(f, from, to);
    }
    dir_unlock_two(f, from->dir, to->dir);
    if (r == 0 && to->inode && to->is_up)
        remove_count_dead(f, to->inode);
    if (r == 0)
        hidden_children_release(f, &hidden);
    hidden_children_done(f, &hidden);
    return r;
}

static int rename_exchange(struct fence *f, struct rename_end *from, struct rename_end *to)
{
    int r = to->inode ? copy_up_source(f, to, from) : -ENOENT;

    if (r != 0)
        return r;
    dir_lock_two(f, from->dir, to->dir);
    if (!rename_end_is_valid(f, from) || !rename_end_is_valid(f, to))
        r = -EAGAIN;
    if (r == 0 && renameat2(from->delta->fd, from->name, to->delta->fd, to->name, RENAME_EXCHANGE) < 0)
        r = -errno;
    if (r == 0) {
        swap_in_tree(f, from, to);
        rename_touch_dirs(f, from, to);
    }
    dir_unlock_two(f, from->dir, to->dir);
    return r;
}

static int rename_looked(struct fence *f, struct rename_end *from, struct rename_end *to, unsigned flags)
{
    int r = check_rename_target(f, from, to, flags);

    if (r < 0)
        return r;
    if (from->inode == to->inode)
        return 0;
    if (fault_is("rename-loses-name")) /* for tests of rename_end_is_valid() */
        revalidate_detach(f, from->dir, from->name, NULL);
    r = rename_end_prepare(f, to);
    if (r == 0)
        r = copy_up_source(f, from, to);
    if (r == 0)
        r = rename_end_prepare(f, from);
    /* After the steps that may find no space: a file that then stays would be saved again at each attempt. */
    if (r == 0 && to->inode && !(flags & RENAME_EXCHANGE))
        r = remove_keep_covered(f, to->inode);
    if (r != 0)
        return r;
    if (from->in_base)
        base_origin_note(f, from->dir, from->name, &from->base);
    if (to->in_base)
        base_origin_note(f, to->dir, to->name, &to->base);
    return flags & RENAME_EXCHANGE ? rename_exchange(f, from, to) : rename_replace(f, from, to);
}

/* If the base keeps changing we give up: the kernel looks the names up once more, and then the caller gets the error. */
static int rename_retry(struct fence *f, struct rename_end *from, struct rename_end *to, unsigned flags)
{
    enum { TRIES = 8 };
    int r = -EAGAIN;

    for (int i = 0; i < TRIES && r == -EAGAIN; i++) {
        if (i > 0) {
            rename_end_forget(f, from);
            rename_end_forget(f, to);
        }
        r = inode_has(to->dir, INODE_DEAD) ? -ENOENT : rename_end_look(f, from, true);
        if (r == 0)
            r = rename_end_look(f, to, false);
        if (r == 0)
            r = rename_looked(f, from, to, flags);
    }
    return r == -EAGAIN ? -ESTALE : r;
}

int op_rename(struct fence *f, const struct op_caller *who, struct inode *from_dir, const char *from_name, struct inode *to_dir,
              const char *to_name, unsigned flags)
{
    struct rename_end from = { .dir = from_dir, .name = from_name }, to = { .dir = to_dir, .name = to_name };
    autodone(buf) struct buf to_path = BUF_EMPTY;
    int r = guard_name(f, POLICY_OP_RENAME_FROM, from_dir, from_name, who, &from.match);

    if (r == 0)
        r = guard_name(f, POLICY_OP_RENAME_TO, to_dir, to_name, who, &to.match);
    if (r == 0 && (flags & ~(unsigned) (RENAME_NOREPLACE | RENAME_EXCHANGE)))
        r = -EINVAL;
    if (r == 0) {
        autolock(&f->moves);
        r = rename_retry(f, &from, &to, flags);
    }
    if (r == 0) {
        tree_path_of(f, to_dir, to_name, &to_path);
        change_log_add_name(f, CHANGE_LOG_RENAMED, from_dir, from_name, to_path.data, who);
    }
    rename_end_done(f, &from);
    rename_end_done(f, &to);
    return r;
}
