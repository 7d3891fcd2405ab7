#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fence/attr.h"
#include "fence/change_log.h"
#include "fence/copyup.h"
#include "fence/guard.h"
#include "fence/handle.h"
#include "fence/ino_map.h"
#include "fence/inode.h"
#include "fence/layer.h"
#include "fence/ops.h"
#include "fence/quota.h"
#include "fence/readdirplus.h"
#include "fence/resolve.h"
#include "fence/unwatched.h"
#include "fence/whiteout.h"

/* Turns our reference into one of the kernel's. */
static void inode_give_to_kernel(struct fence *f, struct inode *inode, struct entry_answer *answer)
{
    tree_lock(f);
    inode_looked_up(f, inode);
    inode_unref_locked(f, inode);
    tree_unlock(f);
    answer->inode = inode;
    answer->is_stale = inode_has(inode, INODE_STALE);
    answer->attr_timeout_s = unwatched_attr_timeout_s(f, inode);
}

int op_lookup(struct fence *f, const struct op_caller *who, struct inode *dir, const char *name, struct entry_answer *answer)
{
    autoptr(match_state) match = NULL;
    struct inode *inode;
    bool maybe_passage;
    int r;

    atomic_fetch_add_explicit(&f->ops[POLICY_OP_LOOKUP], 1, memory_order_relaxed);
    if (inode_is_dir(dir))
        unwatched_check(f, dir);
    *answer = (struct entry_answer){ .entry_timeout_s = unwatched_name_timeout_s(f, dir) };
    r = guard_lookup(f, dir, name, &match, &maybe_passage);
    if (r == 0)
        r = resolve_name(f, dir, name, match, maybe_passage, &inode, &answer->st);
    if (r == 0) {
        readdirplus_looked_up(f, dir, inode);
        inode_give_to_kernel(f, inode, answer);
        if (maybe_passage)
            answer->entry_timeout_s = TIMEOUT_HIDDEN_S;
        return 0;
    }
    if (r == -EACCES || maybe_passage) {
        /* Hidden by a rule, existing or not. */
        guard_report_denied(f, POLICY_OP_LOOKUP, dir, name, LEVEL_NONE, ENOENT, who);
        answer->entry_timeout_s = TIMEOUT_HIDDEN_S;
        return 0;
    }
    return r == -ENOENT ? 0 : r;
}

/* A name that is being created: its directory in the delta, locked, and the marker that must be removed. */
struct creation {
    struct inode *parent; /* borrowed, as are the next two */
    const char *name;
    struct match_state *match;
    struct handle *dir; /* owned reference; the parent in the delta */
    bool had_marker;
    struct stat st; /* of what was created */
    int fd;         /* owned; of a new file; -1: none */
};

static int creation_begin(struct fence *f, struct inode *dir, const char *name, struct match_state *match, struct creation *b)
{
    struct stat st;
    int r;

    *b = (struct creation){ .parent = dir, .name = name, .match = match, .fd = -1 };
    if (inode_has(dir, INODE_DEAD))
        return -ENOENT;
    if (dir->depth >= DEPTH_MAX)
        return -ENAMETOOLONG;
    r = copyup_dir(f, dir);
    if (r < 0)
        return r;
    tree_lock(f);
    const struct entry *e = entry_find(dir, name, strlen(name));
    bool is_up = e && (e->flags & ENTRY_UP);
    b->had_marker = e && (e->flags & ENTRY_WHITEOUT);
    tree_unlock(f);
    if (is_up && !b->had_marker)
        return -EEXIST;
    if (!b->had_marker) {
        r = layer_base_has(f, dir, name, &st);
        if (r)
            return r < 0 ? r : -EEXIST;
    }
    r = handle_get(f, dir, LAYER_DELTA, &b->dir);
    if (r < 0)
        return r;
    r = quota_reserve(&f->quota, 0, 1);
    if (r < 0) {
        handle_put(f, b->dir);
        return r;
    }
    dir_lock(f, dir);
    return 0;
}

/* Removing the marker is the moment at which the name comes to exist. */
static int creation_reveal(struct fence *f, const struct creation *b)
{
    int r = 0;

    fault("create-made");
    if (b->had_marker) {
        r = whiteout_remove(b->dir->fd, b->name);
        if (r == 0)
            quota_release(&f->quota, 0, 1);
        fault("create-revealed");
    }
    if (r == 0)
        attr_touch_dir(f, b->parent, b->dir->fd);
    return r;
}

static void creation_end(struct fence *f, const struct creation *b, int r)
{
    dir_unlock(f, b->parent);
    handle_put(f, b->dir);
    if (r < 0)
        quota_release(&f->quota, 0, 1);
}

/* Adds the new name to the tree. `inode` NULL: makes a new one. The caller owns the reference that is returned. */
static struct inode *creation_enter(struct fence *f, const struct creation *b, struct inode *inode)
{
    struct inode *dir = b->parent;
    size_t len = strlen(b->name);

    tree_lock(f);
    struct entry *e = entry_find(dir, b->name, len);
    if (!e)
        e = entry_add(dir, b->name, len, match_state_ref(b->match), 0);
    /* An inode of the base under this name was not noticed. */
    tree_detach(f, e);
    e->flags = ENTRY_UP;
    e->type = (uint8_t) IFTODT(b->st.st_mode);
    if (inode) {
        inode_ref(inode);
    } else {
        inode = inode_new(f, b->st.st_mode, inode_number_new(f), INODE_UP | INODE_FRESH);
        if (inode->dir)
            inode->dir->atime_ns = inode->dir->mtime_ns = inode->dir->ctime_ns = dir->dir->mtime_ns;
    }
    e->ino = inode->ino;
    entry_bind(e, inode);
    tree_unlock(f);
    ino_map_set(f, dir, b->name, inode->ino);
    return inode;
}

static void creation_answer(struct fence *f, struct inode *dir, struct inode *inode, const struct stat *st,
                            struct entry_answer *answer)
{
    attr_fill(f, inode, st, &answer->st);
    answer->entry_timeout_s = unwatched_name_timeout_s(f, dir);
    inode_give_to_kernel(f, inode, answer);
}

static int creation_stat(struct creation *b)
{
    return fstatat(b->dir->fd, b->name, &b->st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* The second half of a creation; `r` is the result of creating the file. */
static int creation_finish(struct fence *f, const struct op_caller *who, struct creation *b, int r, struct entry_answer *answer)
{
    struct inode *inode = NULL;

    if (r == 0)
        r = creation_reveal(f, b);
    if (r == 0) {
        inode = creation_enter(f, b, NULL);
        if (b->fd >= 0)
            handle_put(f, handle_take(f, inode, LAYER_DELTA, steal_fd(&b->fd)));
    }
    creation_end(f, b, r);
    cleanup_fd(&b->fd);
    if (r != 0)
        return r;
    change_log_add_name(f, CHANGE_LOG_CREATED, b->parent, b->name, NULL, who);
    creation_answer(f, b->parent, inode, &b->st, answer);
    return 0;
}

/* A regular file is opened at once: its creator writes it next. */
static int creation_make_node(struct creation *b, mode_t mode)
{
    int r = 0;

    if (S_ISREG(mode)) {
        b->fd = openat(b->dir->fd, b->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 01777);
        if (b->fd < 0 && errno == EACCES)
            r = mknodat(b->dir->fd, b->name, mode & (S_IFMT | 01777), 0);
        else if (b->fd < 0)
            r = -1;
    } else {
        r = mknodat(b->dir->fd, b->name, mode & (S_IFMT | 01777), 0);
    }
    if (r != 0)
        return -errno;
    return b->fd < 0 ? creation_stat(b) : fstat(b->fd, &b->st) < 0 ? -errno : 0;
}

int op_mknod(struct fence *f, const struct op_caller *who, struct inode *dir, const char *name, mode_t mode,
             struct entry_answer *answer)
{
    autoptr(match_state) match = NULL;
    struct creation b;
    int r = guard_name(f, POLICY_OP_MKNOD, dir, name, who, &match);

    if (r < 0)
        return r;
    if (!S_ISREG(mode) && !S_ISFIFO(mode) && !S_ISSOCK(mode))
        return -EPERM;
    r = creation_begin(f, dir, name, match, &b);
    return r != 0 ? r : creation_finish(f, who, &b, creation_make_node(&b, mode), answer);
}

/* If a marker deletes the name, the base may have a directory there with files in it, which the new one must not show. */
static int creation_make_dir(struct fence *f, const struct creation *b, mode_t mode)
{
    static const char temp[] = "mkdir"; /* one at a time under fence.opaque */
    autofd int fd = -1;
    int r = 0;

    if (!b->had_marker)
        return mkdirat(b->dir->fd, b->name, mode & 01777) < 0 ? -errno : 0;
    autolock(&f->opaque);
    if (mkdirat(f->work_fd, temp, 0700) < 0)
        return -errno;
    fd = openat(f->work_fd, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, (mode & 01777) | (atomic_load(&b->parent->mode) & S_ISGID)) < 0)
        r = -errno;
    if (r == 0)
        r = whiteout_make_opaque(fd);
    fault("mkdir-opaque");
    if (r == 0 && renameat(f->work_fd, temp, b->dir->fd, b->name) < 0)
        r = -errno;
    if (r < 0) {
        if (fd >= 0)
            unlinkat(fd, WHITEOUT_OPAQUE, 0);
        unlinkat(f->work_fd, temp, AT_REMOVEDIR);
    }
    return r;
}

int op_mkdir(struct fence *f, const struct op_caller *who, struct inode *dir, const char *name, mode_t mode,
             struct entry_answer *answer)
{
    autoptr(match_state) match = NULL;
    struct creation b;
    int r = guard_name(f, POLICY_OP_MKDIR, dir, name, who, &match);

    if (r == 0)
        r = creation_begin(f, dir, name, match, &b);
    if (r != 0)
        return r;
    r = creation_make_dir(f, &b, mode);
    if (r == 0)
        r = creation_stat(&b);
    return creation_finish(f, who, &b, r, answer);
}

int op_symlink(struct fence *f, const struct op_caller *who, struct inode *dir, const char *name, const char *target,
               struct entry_answer *answer)
{
    autoptr(match_state) match = NULL;
    struct creation b;
    int r = guard_name(f, POLICY_OP_SYMLINK, dir, name, who, &match);

    if (r == 0)
        r = creation_begin(f, dir, name, match, &b);
    if (r != 0)
        return r;
    r = symlinkat(target, b.dir->fd, name) < 0 ? -errno : creation_stat(&b);
    return creation_finish(f, who, &b, r, answer);
}

/* Links from one of the file's names. */
static int creation_link(struct fence *f, struct inode *inode, const char *name, struct creation *b)
{
    struct inode_location where;
    struct handle *from;
    int r;

    /* Renames that could move the source between looking and linking hold fence.moves. */
    r = inode_locate(f, inode, &where);
    if (r < 0)
        return -ENOENT;
    from = handle_get_cached(f, where.parent, LAYER_DELTA);
    if (!from)
        r = -EAGAIN;
    else if (linkat(from->fd, where.name, b->dir->fd, name, 0) < 0)
        r = -errno;
    handle_put(f, from);
    inode_location_done(f, &where);
    return r;
}

int op_link(struct fence *f, const struct op_caller *who, struct inode *inode, struct inode *dir, const char *name,
            struct entry_answer *answer)
{
    autoptr(match_state) match = NULL;
    struct handle *from_dir = NULL;
    struct inode_location where;
    struct creation b;
    int r = guard_inode(f, POLICY_OP_LINK_FROM, inode, who);

    if (r == 0)
        r = guard_name(f, POLICY_OP_LINK_TO, dir, name, who, &match);
    if (r == 0 && inode_is_dir(inode))
        r = -EPERM;
    if (r == 0)
        r = copyup_file(f, inode, INT64_MAX);
    if (r < 0)
        return r;
    autolock(&f->moves);
    r = inode_locate(f, inode, &where);
    if (r < 0)
        return -ENOENT;
    /* Kept so that creation_link() finds it open: it may not open one under the lock. */
    r = handle_get(f, where.parent, LAYER_DELTA, &from_dir);
    if (r == 0)
        r = creation_begin(f, dir, name, match, &b);
    if (r == 0) {
        r = creation_link(f, inode, name, &b);
        if (r == 0)
            r = creation_stat(&b);
        if (r == 0)
            r = creation_reveal(f, &b);
        if (r == 0) {
            creation_enter(f, &b, inode);
            inode_set(inode, INODE_LINKED);
        }
        creation_end(f, &b, r);
    }
    handle_put(f, from_dir);
    inode_location_done(f, &where);
    if (r < 0)
        return r;
    change_log_add_name(f, CHANGE_LOG_LINKED, dir, name, NULL, who);
    creation_answer(f, dir, inode, &b.st, answer);
    return 0;
}
