#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "fence/attr.h"
#include "fence/audit.h"
#include "fence/casefold.h"
#include "fence/change_log.h"
#include "fence/copyup.h"
#include "fence/guard.h"
#include "fence/handle.h"
#include "fence/inode.h"
#include "fence/layer.h"
#include "fence/ops.h"
#include "fence/quota.h"
#include "fence/unwatched.h"
#include "fence/xattr.h"

static void answer_attr(struct fence *f, struct inode *inode, struct entry_answer *answer)
{
    answer->inode = inode;
    answer->is_stale = inode_has(inode, INODE_STALE);
    answer->attr_timeout_s = unwatched_attr_timeout_s(f, inode);
}

int op_getattr(struct fence *f, const struct op_caller *who, struct inode *inode, struct entry_answer *answer)
{
    int r = guard_inode(f, POLICY_OP_STAT, inode, who);

    if (r < 0)
        return r;
    audit_getattr(f, inode, who);
    unwatched_check(f, inode);
    r = attr_get(f, inode, &answer->st);
    answer_attr(f, inode, answer);
    return r;
}

int op_access(struct fence *f, const struct op_caller *who, struct inode *inode, int mask)
{
    struct stat st;
    int r = guard_inode(f, POLICY_OP_ACCESS, inode, who);

    if (r == 0)
        r = attr_get(f, inode, &st);
    if (r != 0)
        return r;
    return (st.st_mode >> 6 & (mode_t) mask & 7) == ((mode_t) mask & 7) ? 0 : -EACCES;
}

int op_statfs(struct fence *f, const struct op_caller *who, struct statvfs *ret_st)
{
    uint64_t shown[4];
    int r = guard_inode(f, POLICY_OP_STATFS, f->root, who);

    if (r < 0)
        return r;
    quota_statfs(&f->quota, ATTR_BLOCK, shown);
    *ret_st = (struct statvfs){
        .f_bsize = ATTR_BLOCK,
        .f_frsize = ATTR_BLOCK,
        .f_blocks = shown[0],
        .f_bfree = shown[1],
        .f_bavail = shown[1],
        .f_files = shown[2],
        .f_ffree = shown[3],
        .f_favail = shown[3],
        .f_namemax = NAME_MAX,
    };
    return 0;
}

/* Calls `fn` with the name by which the delta knows the inode, while the name cannot change. */
typedef int (*at_fn)(int dirfd, const char *name, const void *arg);

static int at_delta_name(struct fence *f, struct inode *inode, at_fn fn, const void *arg)
{
    struct inode_location where;
    struct handle *h;
    int r = inode_locate(f, inode, &where);

    if (r < 0)
        return r;
    r = handle_get(f, where.parent, LAYER_DELTA, &h);
    if (r == 0) {
        dir_lock(f, where.parent);
        r = inode_has(inode, INODE_DEAD) ? -ESTALE : fn(h->fd, where.name, arg);
        dir_unlock(f, where.parent);
        handle_put(f, h);
    }
    inode_location_done(f, &where);
    return r;
}

static int chmod_at(int dirfd, const char *name, const void *arg)
{
    return fchmodat(dirfd, name, *(const mode_t *) arg, 0) < 0 ? -errno : 0;
}

static int utimens_at(int dirfd, const char *name, const void *arg)
{
    return utimensat(dirfd, name, arg, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static bool has_descriptor(const struct inode *inode)
{
    return inode_is_dir(inode) || S_ISREG(atomic_load(&inode->mode));
}

static int setattr_mode(struct fence *f, struct inode *inode, struct handle *h, mode_t mode)
{
    /* The sandbox may not set suid and sgid: they are ignored for files, as POSIX allows. On a directory sgid gives nobody any
     * right, and here not even another group; tools that share a tree set it and check for it. */
    mode_t bits = mode & (inode_is_dir(inode) ? 03777 : 01777);
    int r;

    if (h)
        r = fchmod(h->fd, bits) < 0 ? -errno : 0;
    else
        r = S_ISLNK(atomic_load(&inode->mode)) ? -EOPNOTSUPP : at_delta_name(f, inode, chmod_at, &bits);
    if (r == 0)
        atomic_store(&inode->mode, (uint16_t) ((atomic_load(&inode->mode) & S_IFMT) | bits));
    if (r == 0 && inode_is_dir(inode))
        attr_touch_dir_ctime(f, inode);
    return r;
}

static int setattr_times(struct fence *f, struct inode *inode, struct handle *h, const struct stat *to, int what)
{
    struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_nsec = UTIME_OMIT } };
    struct stat st;

    if (what & SETATTR_ATIME_NOW)
        times[0].tv_nsec = UTIME_NOW;
    else if (what & SETATTR_ATIME)
        times[0] = to->st_atim;
    if (what & SETATTR_MTIME_NOW)
        times[1].tv_nsec = UTIME_NOW;
    else if (what & SETATTR_MTIME)
        times[1] = to->st_mtim;
    if (!h)
        return at_delta_name(f, inode, utimens_at, times);
    if (futimens(h->fd, times) < 0)
        return -errno;
    if (inode->dir && fstat(h->fd, &st) == 0) {
        tree_lock(f);
        inode->dir->atime_ns = clock_ns_of_timespec(st.st_atim);
        inode->dir->mtime_ns = clock_ns_of_timespec(st.st_mtim);
        tree_unlock(f);
        attr_touch_dir_ctime(f, inode);
    }
    return 0;
}

static int setattr_size(struct fence *f, struct inode *inode, struct handle *h, off_t size)
{
    struct stat before;

    autolock(fence_file_stripe(f, inode));
    if (fstat(h->fd, &before) < 0)
        return -errno;
    if (ftruncate(h->fd, size) < 0)
        return -errno;
    quota_add_growth(f, inode, h->fd, &before, 0);
    return 0;
}

static int setattr_apply(struct fence *f, struct inode *inode, const struct stat *to, int what)
{
    struct handle *h = NULL;
    int r = has_descriptor(inode) ? handle_get(f, inode, LAYER_DELTA, &h) : 0;

    if (r < 0)
        return r;
    if (what & SETATTR_SIZE)
        r = h && S_ISREG(atomic_load(&inode->mode)) ? setattr_size(f, inode, h, to->st_size) : -EINVAL;
    if (r == 0 && (what & SETATTR_MODE))
        r = setattr_mode(f, inode, h, to->st_mode);
    if (r == 0 && (what & (SETATTR_ATIME | SETATTR_MTIME | SETATTR_ATIME_NOW | SETATTR_MTIME_NOW)))
        r = setattr_times(f, inode, h, to, what);
    handle_put(f, h);
    return r;
}

int op_setattr(struct fence *f, const struct op_caller *who, struct inode *inode, const struct stat *to, int what,
               struct entry_answer *answer)
{
    int times = SETATTR_ATIME | SETATTR_MTIME | SETATTR_ATIME_NOW | SETATTR_MTIME_NOW;
    int r = guard_inode(f, POLICY_OP_SETATTR, inode, who);

    /* All files belong to the sandbox's user and cannot belong to another. */
    if (r == 0 && (((what & SETATTR_UID) && to->st_uid != f->uid) || ((what & SETATTR_GID) && to->st_gid != f->gid)))
        r = -EPERM;
    if (r == 0 && (what & SETATTR_SIZE) && to->st_size < 0)
        r = -EINVAL;
    if (r == 0 && (what & (SETATTR_MODE | SETATTR_SIZE | times))) {
        if (inode_is_dir(inode))
            r = copyup_dir(f, inode);
        else
            r = copyup_file(f, inode, what & SETATTR_SIZE ? to->st_size : INT64_MAX);
        if (r == 0)
            r = setattr_apply(f, inode, to, what);
        if (r == 0)
            change_log_add_inode(f, what & SETATTR_SIZE ? CHANGE_LOG_WRITTEN : CHANGE_LOG_ATTRS, inode, who);
    }
    if (r == 0)
        r = attr_get(f, inode, &answer->st);
    answer_attr(f, inode, answer);
    return r;
}

static int readlink_at(int dirfd, const char *name, const void *arg)
{
    char *out = *(char *const *) arg;
    ssize_t n = readlinkat(dirfd, name, out, PATH_MAX - 1);

    if (n < 0)
        return -errno;
    out[n] = 0;
    return 0;
}

static int readlink_base(struct fence *f, struct inode *inode, char out[PATH_MAX])
{
    struct inode_location where;
    struct handle *h;
    int r = inode_locate(f, inode, &where);

    if (r < 0)
        return r;
    r = handle_get(f, where.parent, LAYER_BASE, &h);
    if (r == 0) {
        r = readlink_at(h->fd, where.name, &out);
        if (r == 0)
            r = casefold_check(f, h, where.name);
        handle_put(f, h);
    }
    inode_location_done(f, &where);
    return r;
}

int op_readlink(struct fence *f, const struct op_caller *who, struct inode *inode, char out[PATH_MAX])
{
    int r = guard_inode(f, POLICY_OP_READLINK, inode, who);

    if (r < 0)
        return r;
    if (!S_ISLNK(atomic_load(&inode->mode)))
        return -EINVAL;
    unwatched_after_read(f, inode);
    return inode_has(inode, INODE_UP) ? at_delta_name(f, inode, readlink_at, &out) : readlink_base(f, inode, out);
}

/* The kernel asks for every program that starts and every file that is listed with details, so this is checked before anything
 * is opened. */
static int check_xattr_name(const char *name)
{
    return xattr_is_shown(name) ? 0 : -EOPNOTSUPP;
}

/* A directory of the base is open as O_PATH, which gives no xattrs. */
static int open_for_xattr(struct fence *f, struct inode *inode, struct handle **ret_handle, int *ret_fd)
{
    enum layer_kind layer = inode_has(inode, INODE_UP) ? LAYER_DELTA : LAYER_BASE;

    *ret_handle = NULL;
    if (!has_descriptor(inode))
        return -ENODATA;
    if (inode_is_dir(inode)) {
        *ret_fd = layer_open_listing(f, inode, layer);
        return *ret_fd < 0 ? *ret_fd : 0;
    }
    return handle_get(f, inode, layer, ret_handle);
}

ssize_t op_getxattr(struct fence *f, const struct op_caller *who, struct inode *inode, const char *name, void *value,
                    size_t size)
{
    struct handle *h;
    autofd int fd = -1;
    ssize_t r = check_xattr_name(name);

    if (r < 0)
        return r;
    r = guard_inode(f, POLICY_OP_GETXATTR, inode, who);
    if (r == 0)
        r = open_for_xattr(f, inode, &h, &fd);
    if (r != 0)
        return r;
    r = fgetxattr(h ? h->fd : fd, name, value, size);
    if (r < 0)
        r = -errno;
    handle_put(f, h);
    return r;
}

ssize_t op_listxattr(struct fence *f, const struct op_caller *who, struct inode *inode, char *list, size_t size)
{
    struct handle *h;
    autofd int fd = -1;
    ssize_t r = guard_inode(f, POLICY_OP_LISTXATTR, inode, who);

    if (r == 0)
        r = open_for_xattr(f, inode, &h, &fd);
    if (r != 0)
        return r == -ENODATA ? 0 : r;
    r = flistxattr(h ? h->fd : fd, list, size);
    if (r < 0)
        r = -errno;
    else if (size > 0)
        r = (ssize_t) xattr_filter(list, (size_t) r);
    handle_put(f, h);
    return r;
}

/* A block for attributes counts as one that fills a hole. */
static int put_xattr(struct fence *f, enum policy_op op, struct inode *inode, int fd, const char *name, const void *value,
                     size_t size, int flags)
{
    struct stat before;
    int r;

    autolock(fence_file_stripe(f, inode));
    if (fstat(fd, &before) < 0)
        return -errno;
    r = op == POLICY_OP_SETXATTR ? fsetxattr(fd, name, value, size, flags) : fremovexattr(fd, name);
    r = r < 0 ? -errno : 0;
    quota_add_growth(f, inode, fd, &before, 0);
    return r;
}

static int change_xattr(struct fence *f, const struct op_caller *who, enum policy_op op, struct inode *inode, const char *name,
                        const void *value, size_t size, int flags)
{
    struct handle *h;
    int r = check_xattr_name(name);

    if (r < 0)
        return r;
    r = guard_inode(f, op, inode, who);
    if (r == 0 && !has_descriptor(inode))
        r = -EPERM;
    if (r == 0)
        r = inode_is_dir(inode) ? copyup_dir(f, inode) : copyup_file(f, inode, INT64_MAX);
    if (r == 0)
        r = handle_get(f, inode, LAYER_DELTA, &h);
    if (r != 0)
        return r;
    r = put_xattr(f, op, inode, h->fd, name, value, size, flags);
    handle_put(f, h);
    if (r == 0 && inode_is_dir(inode))
        attr_touch_dir_ctime(f, inode);
    if (r == 0)
        change_log_add_inode(f, CHANGE_LOG_ATTRS, inode, who);
    return r;
}

int op_setxattr(struct fence *f, const struct op_caller *who, struct inode *inode, const char *name, const void *value,
                size_t size, int flags)
{
    return change_xattr(f, who, POLICY_OP_SETXATTR, inode, name, value, size, flags);
}

int op_removexattr(struct fence *f, const struct op_caller *who, struct inode *inode, const char *name)
{
    return change_xattr(f, who, POLICY_OP_REMOVEXATTR, inode, name, NULL, 0, 0);
}
