#include "fence/copyup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "fence/attr.h"
#include "fence/base_origin.h"
#include "fence/change_log.h"
#include "fence/extent.h"
#include "fence/handle.h"
#include "fence/inode.h"
#include "fence/invalidate.h"
#include "fence/layer.h"
#include "fence/merge.h"
#include "fence/quota.h"
#include "fence/resolve.h"
#include "fence/unwatched.h"
#include "fence/whiteout.h"
#include "fence/xattr.h"

static void temp_name(struct fence *f, char out[32])
{
    snprintf(out, 32, "t%" PRIu64, atomic_fetch_add(&f->temp_counter, 1));
}

static int copy_by_hand(int from, int to, off_t at, off_t end)
{
    autofree char *bytes = malloc(1 << 17);

    if (!bytes)
        return -ENOMEM;
    while (at < end) {
        size_t want = end - at < (1 << 17) ? (size_t) (end - at) : 1 << 17;
        ssize_t n = pread(from, bytes, want, at);
        if (n <= 0)
            return n < 0 ? -errno : 0;
        for (ssize_t done = 0; done < n;) {
            ssize_t w = pwrite(to, bytes + done, (size_t) (n - done), at + done);
            if (w < 0)
                return -errno;
            done += w;
        }
        at += n;
    }
    return 0;
}

static int copy_range(int from, int to, off_t at, off_t end)
{
    while (at < end) {
        off_t in = at, out = at;
        ssize_t n = copy_file_range(from, &in, to, &out, (size_t) (end - at), 0);
        if (n < 0)
            return errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP ? copy_by_hand(from, to, at, end)
                                                                                               : -errno;
        if (n == 0)
            return 0;
        at += n;
    }
    return 0;
}

int copyup_content(int from, int to, int64_t most)
{
    struct stat st;
    off_t at = 0, size;

    if (fstat(from, &st) < 0)
        return -errno;
    size = st.st_size < most ? st.st_size : (off_t) most;
    if (size == st.st_size && size > 0 && ioctl(to, FICLONE, from) == 0)
        return 0;
    if (ftruncate(to, size) < 0)
        return -errno;
    while (at < size) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break;
        if (data < 0)
            return copy_range(from, to, at, size);
        off_t hole = lseek(from, data, SEEK_HOLE);
        if (hole < 0 || hole > size)
            hole = size;
        int r = data < size ? copy_range(from, to, data, hole) : 0;
        if (r < 0)
            return r;
        at = hole > data ? hole : size;
    }
    return 0;
}

int copyup_same_content(int a, int b)
{
    autofree char *x = malloc(131072);
    char *y = x + 65536;
    off_t at = 0;

    if (!x)
        return -ENOMEM;
    for (;;) {
        ssize_t n = fd_pread_full(a, x, 65536, at), m = fd_pread_full(b, y, 65536, at);
        if (n < 0 || m < 0)
            return (int) (n < 0 ? n : m);
        if (n != m || memcmp(x, y, (size_t) n) != 0)
            return 0;
        if (n == 0)
            return 1;
        at += n;
    }
}

/* Makes an empty directory in the delta under the base directory's name, so that all of the base goes on showing through. */
static int copyup_make_dir(struct fence *f, struct inode *dir, struct handle *parent, const struct inode_location *where)
{
    char temp[32];
    autofd int fd = -1;
    int r = quota_reserve(&f->quota, 0, 1);

    if (r < 0)
        return r;
    temp_name(f, temp);
    if (mkdirat(f->work_fd, temp, 0700) < 0)
        goto fail;
    fault("copyup-dir-made");
    fd = openat(f->work_fd, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, atomic_load(&dir->mode) & 01777) < 0)
        goto fail;
    xattr_copy_dir(f, dir, fd);
    attr_restore_dir_times(f, dir, fd);
    if (renameat(f->work_fd, temp, parent->fd, where->name) < 0)
        goto fail;
    fault("copyup-dir-placed");
    tree_lock(f);
    dir->names->flags |= ENTRY_UP;
    tree_unlock(f);
    inode_set(dir, INODE_UP | INODE_FRESH);
    attr_restore_dir_times(f, where->parent, parent->fd);
    return 0;
fail:
    r = -errno;
    unlinkat(f->work_fd, temp, AT_REMOVEDIR);
    quota_release(&f->quota, 0, 1);
    return r;
}

int copyup_dir(struct fence *f, struct inode *dir)
{
    struct inode_location where;
    struct handle *parent = NULL;
    int r;

    if (inode_has(dir, INODE_UP))
        return 0;
    r = inode_locate(f, dir, &where);
    if (r < 0)
        return -ENOENT;
    r = copyup_dir(f, where.parent);
    if (r == 0)
        r = handle_get(f, where.parent, LAYER_DELTA, &parent);
    if (r == 0) {
        /* A directory that is not in the delta can meanwhile be removed, but not renamed. */
        dir_lock(f, where.parent);
        if (inode_has(dir, INODE_DEAD))
            r = -ENOENT;
        else if (!inode_has(dir, INODE_UP))
            r = copyup_make_dir(f, dir, parent, &where);
        dir_unlock(f, where.parent);
        handle_put(f, parent);
    }
    inode_location_done(f, &where);
    return r;
}

/* The size of a copy of the file, in whole blocks. */
static uint64_t copied_size(const struct stat *st, int64_t keep_bytes)
{
    uint64_t size = (uint64_t) (keep_bytes < st->st_size ? keep_bytes : st->st_size);

    return S_ISREG(st->st_mode) ? (size + EXTENT_BLOCK - 1) & ~(EXTENT_BLOCK - 1) : 0;
}

/* Space that the base file has beyond its end is not copied. */
static uint64_t copied_bytes(const struct stat *st, int64_t keep_bytes)
{
    uint64_t bytes = quota_bytes_of(st), size = copied_size(st, keep_bytes);

    return bytes > size ? size : bytes;
}

/* A copy-up under way. */
struct copy {
    struct stat base;
    char temp[32];
    int fd; /* owned; the new regular file, -1 for other kinds */
    bool made;
    uint64_t bytes; /* reserved from the quota */
};

static int reserve_bytes(struct fence *f, struct copy *c, uint64_t bytes)
{
    int r = bytes > c->bytes ? quota_reserve(&f->quota, bytes - c->bytes, 0) : 0;

    if (r < 0)
        return r;
    if (bytes < c->bytes)
        quota_release(&f->quota, c->bytes - bytes, 0);
    c->bytes = bytes;
    return 0;
}

/* Reserves the bytes that will be copied: fewer than the size only if the file reports holes. */
static int reserve_expected_bytes(struct fence *f, struct copy *c, int from, int64_t keep_bytes)
{
    uint64_t size = copied_size(&c->base, keep_bytes);

    if (c->bytes >= size || !quota_limits_bytes(&f->quota))
        return 0;
    uint64_t bytes = size - extent_holes(from, 0, size);
    return bytes > c->bytes ? reserve_bytes(f, c, bytes) : 0;
}

/* The space that the base file occupies says little if it is compressed or its file system reports nothing. The copy's space is
 * what counts, since that is released when the copy goes. */
static int reserve_copied_bytes(struct fence *f, struct copy *c)
{
    struct stat st;

    return fstat(c->fd, &st) < 0 ? -errno : reserve_bytes(f, c, quota_bytes_of(&st));
}

static int copyup_make_regular(struct fence *f, struct inode *inode, int64_t keep_bytes, struct copy *c)
{
    struct handle *from;
    char kept[32];
    bool has_kept = false;
    int r = handle_get(f, inode, LAYER_BASE, &from);

    if (r < 0)
        return r;
    r = fstat(from->fd, &c->base) < 0 ? -errno : reserve_expected_bytes(f, c, from->fd, keep_bytes);
    if (r == 0) {
        c->fd = openat(f->work_fd, c->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        c->made = c->fd >= 0;
        r = c->made ? 0 : -errno;
    }
    fault("copyup-temp-made");
    if (r == 0)
        r = copyup_content(from->fd, c->fd, keep_bytes);
    fault("copyup-data-copied");
    if (r == 0)
        xattr_copy(from->fd, c->fd);
    if (r == 0)
        r = reserve_copied_bytes(f, c);
    if (r == 0 && f->is_live)
        has_kept = change_log_keep_pre_image(f, from->fd, kept) == 0;
    if (r == 0 && fchmod(c->fd, c->base.st_mode & 01777) < 0)
        r = -errno;
    if (r == 0)
        futimens(c->fd, (struct timespec[]){ c->base.st_atim, c->base.st_mtim });
    if (r == 0)
        change_log_add_copyup(f, inode, &c->base, from, has_kept ? kept : NULL);
    handle_put(f, from);
    return r;
}

static int copyup_make_symlink(struct fence *f, const struct inode_location *where, struct copy *c)
{
    char target[PATH_MAX];
    struct handle *parent;
    int r = handle_get(f, where->parent, LAYER_BASE, &parent);

    if (r < 0)
        return r;
    ssize_t n = readlinkat(parent->fd, where->name, target, sizeof(target) - 1);
    r = n < 0 ? -errno : 0;
    handle_put(f, parent);
    if (r < 0)
        return r;
    target[n] = 0;
    c->made = symlinkat(target, f->work_fd, c->temp) == 0;
    return c->made ? 0 : -errno;
}

/* Symlinks, FIFOs and sockets. */
static int copyup_make_special(struct fence *f, struct inode *inode, const struct inode_location *where, struct copy *c)
{
    mode_t type = atomic_load(&inode->mode) & S_IFMT;
    int r = layer_stat(f, where->parent, LAYER_BASE, where->name, &c->base);

    if (r < 0)
        return r;
    if (type != S_IFLNK && type != S_IFIFO && type != S_IFSOCK)
        return -EPERM;
    if (type == S_IFLNK) {
        r = copyup_make_symlink(f, where, c);
    } else {
        c->made = mknodat(f->work_fd, c->temp, type | (c->base.st_mode & 0777), 0) == 0;
        r = c->made ? 0 : -errno;
    }
    if (r == 0)
        utimensat(f->work_fd, c->temp, (struct timespec[]){ c->base.st_atim, c->base.st_mtim }, AT_SYMLINK_NOFOLLOW);
    if (r == 0)
        change_log_add_copyup(f, inode, &c->base, NULL, NULL);
    return r;
}

static void inode_become_up(struct fence *f, struct inode *inode, struct copy *c)
{
    atomic_fetch_add(&f->copied_up, 1);
    if (c->fd >= 0)
        handle_put(f, handle_take(f, inode, LAYER_DELTA, steal_fd(&c->fd)));
    inode_set(inode, INODE_UP | INODE_FRESH);
    inode_clear(inode, INODE_BASE);
    handle_evict(f, inode, LAYER_BASE);
}

/* The file lost its name before or during the copy, and is still open: the copy goes on without a name too. */
static int copyup_keep_nameless(struct fence *f, struct inode *inode, struct copy *c)
{
    if (c->fd < 0)
        return -ESTALE;
    unlinkat(f->work_fd, c->temp, 0);
    inode_become_up(f, inode, c);
    handle_pin(f, inode, LAYER_DELTA);
    quota_release(&f->quota, 0, 1);
    quota_add_dead(&f->quota, (int64_t) c->bytes);
    return 0;
}

static int install_copy(struct fence *f, struct inode *inode, const struct inode_location *where, struct copy *c)
{
    struct handle *parent;
    int r = copyup_dir(f, where->parent);

    if (r == 0)
        r = handle_get(f, where->parent, LAYER_DELTA, &parent);
    if (r != 0)
        return r;
    dir_lock(f, where->parent);
    if (inode_has(inode, INODE_DEAD)) {
        r = copyup_keep_nameless(f, inode, c);
    } else if (renameat(f->work_fd, c->temp, parent->fd, where->name) < 0) {
        r = -errno;
    } else {
        fault("copyup-placed");
        base_origin_note(f, where->parent, where->name, &c->base);
        tree_lock(f);
        inode->names->flags |= ENTRY_UP;
        tree_unlock(f);
        inode_become_up(f, inode, c);
        attr_restore_dir_times(f, where->parent, parent->fd);
    }
    dir_unlock(f, where->parent);
    handle_put(f, parent);
    return r;
}

static int copyup_once(struct fence *f, struct inode *inode, int64_t keep_bytes)
{
    struct copy c = { .fd = -1 };
    struct inode_location where = { 0 };
    struct stat st;
    int r;

    autolock(fence_file_stripe(f, inode));
    if (inode_has(inode, INODE_UP))
        return 0;
    bool nameless = inode_locate(f, inode, &where) < 0;
    r = layer_stat_inode(f, inode, &st);
    c.bytes = r == 0 ? copied_bytes(&st, keep_bytes) : 0;
    if (r == 0)
        r = quota_reserve(&f->quota, c.bytes, 1);
    if (r < 0) {
        inode_location_done(f, &where);
        return r;
    }
    temp_name(f, c.temp);
    /* Before anything of the base is saved: there may be no room for it. */
    if (!nameless)
        r = copyup_dir(f, where.parent);
    if (r == 0 && S_ISREG(atomic_load(&inode->mode)))
        r = copyup_make_regular(f, inode, keep_bytes, &c);
    else if (r == 0)
        r = nameless ? -ESTALE : copyup_make_special(f, inode, &where, &c);
    fault("copyup-made");
    if (r == 0)
        r = nameless ? copyup_keep_nameless(f, inode, &c) : install_copy(f, inode, &where, &c);
    if (r < 0) {
        if (c.made)
            unlinkat(f->work_fd, c.temp, 0);
        quota_release(&f->quota, c.bytes, 1);
    }
    if (c.fd >= 0)
        close(c.fd);
    inode_location_done(f, &where);
    return r;
}

int copyup_file(struct fence *f, struct inode *inode, int64_t keep_bytes)
{
    int r;

    if (inode_has(inode, INODE_UP))
        return 0;
    unwatched_check(f, inode);
    bool is_unwatched = unwatched_any(f) && unwatched_is_within(f, inode);
    r = copyup_once(f, inode, keep_bytes);
    if (r == -ENOSPC && quota_reclaim_dead(f))
        r = copyup_once(f, inode, keep_bytes);
    /* The kernel may have pages of the file's earlier content. */
    if (r == 0 && is_unwatched)
        invalidate_soon(f, inode);
    return r;
}

struct tree_copy {
    struct fence *f;
    struct inode *dir;
    struct match_state *match;
};

static int on_tree_name(const char *name, uint8_t type, void *cookie)
{
    struct tree_copy *t = cookie;
    autoptr(match_state) match = ruleset_step(t->f->rules, t->match, name, strlen(name));
    struct inode *inode;
    int r = resolve_name(t->f, t->dir, name, match, false, &inode, NULL);

    (void) type;
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    r = inode_is_dir(inode) ? copyup_tree(t->f, inode) : copyup_file(t->f, inode, INT64_MAX);
    inode_unref(t->f, inode);
    return r;
}

/* Ends merging for this directory when everything in it is copied. The marker comes first, so that this holds after a crash. */
static int close_to_base(struct fence *f, struct inode *dir)
{
    struct handle *h;
    int r = handle_get(f, dir, LAYER_DELTA, &h);

    if (r < 0)
        return r;
    r = whiteout_make_opaque(h->fd);
    fault("copyup-opaque");
    if (r == 0) {
        attr_restore_dir_times(f, dir, h->fd);
        inode_clear(dir, INODE_BASE);
        handle_evict(f, dir, LAYER_BASE);
    }
    handle_put(f, h);
    return r;
}

int copyup_tree(struct fence *f, struct inode *dir)
{
    struct tree_copy t = { .f = f, .dir = dir };
    int r;

    if (!inode_has(dir, INODE_BASE))
        return 0;
    r = copyup_dir(f, dir);
    t.match = inode_dup_match_state(f, dir);
    if (r == 0 && t.match)
        r = merge_each(f, dir, on_tree_name, &t);
    match_state_unref(t.match);
    return r == 0 ? close_to_base(f, dir) : r;
}
