#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "fence/change_log.h"
#include "fence/copyup.h"
#include "fence/delta.h"
#include "fence/extent.h"
#include "fence/fence_int.h"
#include "fence/guard.h"
#include "fence/handle.h"
#include "fence/inode.h"
#include "fence/invalidate.h"
#include "fence/ops.h"
#include "fence/passthrough.h"
#include "fence/quota.h"
#include "fence/read_log.h"
#include "fence/unwatched.h"

static int get_content(struct fence *f, struct inode *inode, struct handle **ret_handle)
{
    if (!S_ISREG(atomic_load(&inode->mode)))
        return inode_is_dir(inode) ? -EISDIR : -EINVAL;
    for (;;) {
        enum layer_kind layer = inode_has(inode, INODE_UP) ? LAYER_DELTA : LAYER_BASE;
        int r = handle_get(f, inode, layer, ret_handle);
        /* A copy-up happened between the two lines above: what was opened is the old content. */
        if (r == 0 && layer == LAYER_BASE && inode_has(inode, INODE_UP)) {
            handle_put(f, *ret_handle);
            continue;
        }
        return r;
    }
}

int op_open(struct fence *f, const struct op_caller *who, struct inode *inode, int flags)
{
    bool for_writing = (flags & O_ACCMODE) != O_RDONLY;
    int r = guard_inode(f, for_writing ? POLICY_OP_WRITE : POLICY_OP_READ, inode, who);

    return r < 0 ? r : passthrough_open(f, inode, for_writing);
}

void op_release(struct fence *f, struct inode *inode)
{
    passthrough_release(f, inode);
}

ssize_t op_read(struct fence *f, const struct op_caller *who, struct inode *inode, void *bytes, size_t size, off_t offset)
{
    struct handle *h;
    ssize_t n = guard_inode(f, POLICY_OP_READ, inode, who);

    if (n == 0 && f->is_live)
        unwatched_before_read(f, inode);
    if (n == 0)
        n = get_content(f, inode, &h);
    if (n != 0)
        return n;
    if (f->is_live && h->layer == LAYER_BASE) {
        unwatched_after_read(f, inode);
        read_log_note(f, inode, h);
    }
    n = fd_pread_full(h->fd, bytes, size, offset);
    handle_put(f, h);
    return n;
}

/* What the file counts for when the range, of which `missing` bytes are not allocated, has been written or reserved. */
static uint64_t bytes_with(const struct stat *before, uint64_t end, uint64_t missing)
{
    struct stat st = *before;

    st.st_blocks += (blkcnt_t) (missing / 512);
    if (end > (uint64_t) st.st_size)
        st.st_size = (off_t) end;
    return quota_bytes_of(&st);
}

/*
 * Space for a range is reserved before it is written and adjusted afterwards to what the file really occupies. Only unallocated
 * parts need any, and these must be searched for: totals do not tell, since space may be allocated beyond the end. A write at
 * the end, the usual one, is not worth a search, nor is distinguishing reserved space from a hole, unless the quota would
 * refuse the write. `end` is the least end of the file afterwards.
 */
static int reserve_room(struct fence *f, int fd, const struct stat *before, uint64_t offset, uint64_t size, uint64_t end,
                        uint64_t *ret_taken)
{
    uint64_t now = quota_bytes_of(before), then;

    if (offset >= (uint64_t) before->st_size)
        then = now + size;
    else
        then = bytes_with(before, end, extent_holes(fd, offset, size));
    *ret_taken = then > now ? then - now : 0;
    if (quota_reserve(&f->quota, *ret_taken, 0) == 0)
        return 0;
    then = bytes_with(before, end, extent_missing(fd, offset, size));
    *ret_taken = then > now ? then - now : 0;
    return quota_reserve(&f->quota, *ret_taken, 0);
}

static ssize_t write_counted(struct fence *f, struct inode *inode, int fd, size_t size, off_t offset, write_fn write_to,
                             void *cookie)
{
    struct stat before;
    uint64_t taken;
    ssize_t n;

    if (fstat(fd, &before) < 0)
        return -errno;
    n = reserve_room(f, fd, &before, (uint64_t) offset, size, (uint64_t) offset + size, &taken);
    if (n < 0)
        return n;
    n = write_to(fd, size, offset, cookie);
    quota_add_growth(f, inode, fd, &before, taken);
    return n;
}

static ssize_t write_content(struct fence *f, struct inode *inode, int fd, size_t size, off_t offset, write_fn write_to,
                             void *cookie)
{
    if (!quota_limits_bytes(&f->quota))
        return write_to(fd, size, offset, cookie);
    autolock(fence_file_stripe(f, inode));
    return write_counted(f, inode, fd, size, offset, write_to, cookie);
}

ssize_t op_write(struct fence *f, const struct op_caller *who, struct inode *inode, size_t size, off_t offset,
                 write_fn write_to, void *cookie)
{
    struct handle *h;
    ssize_t n = guard_inode(f, POLICY_OP_WRITE, inode, who);

    /* A write through a mapping is in the page cache before we are asked: what was refused must not stay there. */
    if (n < 0)
        invalidate_soon(f, inode);
    if (n == 0)
        n = copyup_file(f, inode, INT64_MAX);
    if (n == 0)
        n = get_content(f, inode, &h);
    if (n != 0)
        return n;
    n = write_content(f, inode, h->fd, size, offset, write_to, cookie);
    if (n == -ENOSPC && quota_reclaim_dead(f))
        n = write_content(f, inode, h->fd, size, offset, write_to, cookie);
    handle_put(f, h);
    if (n > 0)
        change_log_add_inode(f, CHANGE_LOG_WRITTEN, inode, who);
    return n;
}

/* Syncs the directory that holds the name, and those above it that are new. */
static int sync_parent(struct fence *f, struct inode *inode)
{
    struct inode_location where;
    struct handle *h;
    int r = inode_locate(f, inode, &where);

    if (r < 0)
        return 0;
    r = handle_get(f, where.parent, LAYER_DELTA, &h);
    if (r == 0) {
        r = fsync(h->fd) < 0 ? -errno : 0;
        handle_put(f, h);
    }
    if (r == 0 && inode_has(where.parent, INODE_FRESH)) {
        r = sync_parent(f, where.parent);
        inode_clear(where.parent, INODE_FRESH);
    }
    inode_location_done(f, &where);
    return r;
}

int op_fsync(struct fence *f, const struct op_caller *who, struct inode *inode, bool data_only)
{
    struct handle *h;
    int r = guard_inode(f, POLICY_OP_SYNC, inode, who);

    if (r < 0 || !inode_has(inode, INODE_UP))
        return r;
    if (!inode_is_dir(inode) && !S_ISREG(atomic_load(&inode->mode)))
        return 0;
    r = delta_persist(f);
    if (r == 0)
        r = handle_get(f, inode, LAYER_DELTA, &h);
    if (r != 0)
        return r;
    r = (data_only ? fdatasync(h->fd) : fsync(h->fd)) < 0 ? -errno : 0;
    handle_put(f, h);
    /* The first time, the name must be durable as well. */
    if (r == 0 && inode_has(inode, INODE_FRESH)) {
        r = sync_parent(f, inode);
        inode_clear(inode, INODE_FRESH);
    }
    return r;
}

static int fallocate_counted(struct fence *f, struct inode *inode, int fd, int mode, off_t offset, off_t length)
{
    bool takes = !(mode & FALLOC_FL_PUNCH_HOLE) && quota_limits_bytes(&f->quota);
    uint64_t end = mode & FALLOC_FL_KEEP_SIZE ? 0 : (uint64_t) offset + (uint64_t) length, taken = 0;
    struct stat before;
    int r;

    autolock(fence_file_stripe(f, inode));
    if (fstat(fd, &before) < 0)
        return -errno;
    r = takes ? reserve_room(f, fd, &before, (uint64_t) offset, (uint64_t) length, end, &taken) : 0;
    if (r < 0)
        return r;
    r = fallocate(fd, mode, offset, length) < 0 ? -errno : 0;
    quota_add_growth(f, inode, fd, &before, taken);
    return r;
}

int op_fallocate(struct fence *f, const struct op_caller *who, struct inode *inode, int mode, off_t offset, off_t length)
{
    struct handle *h;
    int r = guard_inode(f, POLICY_OP_FALLOCATE, inode, who);

    if (r == 0 && (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)))
        r = -EOPNOTSUPP;
    if (r == 0)
        r = copyup_file(f, inode, INT64_MAX);
    if (r == 0)
        r = get_content(f, inode, &h);
    if (r != 0)
        return r;
    r = fallocate_counted(f, inode, h->fd, mode, offset, length);
    if (r == -ENOSPC && quota_reclaim_dead(f))
        r = fallocate_counted(f, inode, h->fd, mode, offset, length);
    handle_put(f, h);
    if (r == 0)
        change_log_add_inode(f, CHANGE_LOG_WRITTEN, inode, who);
    return r;
}

int op_lseek(struct fence *f, const struct op_caller *who, struct inode *inode, off_t offset, int whence, off_t *ret_offset)
{
    struct handle *h;
    off_t at;
    int r = guard_inode(f, POLICY_OP_SEEK, inode, who);

    if (r == 0 && whence != SEEK_DATA && whence != SEEK_HOLE)
        r = -EINVAL;
    if (r == 0)
        r = get_content(f, inode, &h);
    if (r != 0)
        return r;
    /* The position is shared, but SEEK_DATA and SEEK_HOLE do not use it and all our reading is by pread. */
    at = lseek(h->fd, offset, whence);
    r = at < 0 ? -errno : 0;
    handle_put(f, h);
    if (r == 0)
        *ret_offset = at;
    return r;
}

struct file_range {
    int from;
    off_t offset;
};

static ssize_t copy_to(int fd, size_t size, off_t offset, void *cookie)
{
    struct file_range *range = cookie;
    ssize_t n = copy_file_range(range->from, &range->offset, fd, &offset, size, 0);

    return n < 0 ? -errno : n;
}

ssize_t op_copy_range(struct fence *f, const struct op_caller *who, struct inode *from, off_t from_offset, struct inode *to,
                      off_t to_offset, size_t size)
{
    struct handle *h;
    ssize_t n = guard_inode(f, POLICY_OP_COPY_FROM, from, who);

    if (n == 0)
        n = guard_inode(f, POLICY_OP_COPY_TO, to, who);
    if (n == 0)
        n = copyup_file(f, to, INT64_MAX);
    if (n == 0)
        n = get_content(f, from, &h);
    if (n != 0)
        return n;
    struct file_range range = { h->fd, from_offset };
    n = op_write(f, who, to, size, to_offset, copy_to, &range);
    handle_put(f, h);
    return n;
}
