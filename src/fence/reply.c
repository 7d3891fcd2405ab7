#include "fence/reply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "fence/inode.h"
#include "fence/invalidate.h"
#include "fence/ops.h"
#include "fence/session.h"

#define REPLY_BYTES_MAX (1 << 20)

static struct fence *fence_of(fuse_req_t req)
{
    return fuse_req_userdata(req);
}

/* The kernel only names nodes that we gave it and that it has not forgotten; it holds them during the request. It looks up a
 * node opened by file handle (open_by_handle_at) by ".", which finds none; such a request would be about the root, where it
 * does no harm. */
static struct inode *inode_of(struct fence *f, fuse_ino_t node)
{
    struct inode *inode = node == FUSE_ROOT_ID ? f->root : inode_by_node(f, node);

    return inode ? inode : f->root;
}

fuse_ino_t reply_node_of(const struct fence *f, const struct inode *inode)
{
    return inode == f->root ? FUSE_ROOT_ID : inode->node;
}

/* Begins a request: finds the caller and passes the gate. */
#define BEGIN(req)                                                                                                             \
    struct fence *f = fence_of(req);                                                                                           \
    struct op_caller who = { .pid = fuse_req_ctx(req)->pid, .uid = fuse_req_ctx(req)->uid };                                   \
    pthread_rwlock_rdlock(&f->gate)
#define END() pthread_rwlock_unlock(&f->gate)

static void reply_fill_entry(const struct fence *f, const struct entry_answer *answer, struct fuse_entry_param *e)
{
    *e = (struct fuse_entry_param){
        .ino = answer->inode ? reply_node_of(f, answer->inode) : 0,
        .attr = answer->st,
        .attr_timeout = answer->attr_timeout_s,
        .entry_timeout = answer->entry_timeout_s,
    };
}

/* An interrupted caller never gets the node, which is the same as if the kernel had forgotten it. */
static void reply_entry(fuse_req_t req, struct fence *f, int r, const struct entry_answer *answer)
{
    struct fuse_entry_param e;

    if (r < 0) {
        fuse_reply_err(req, -r);
        return;
    }
    reply_fill_entry(f, answer, &e);
    if (fuse_reply_entry(req, &e) == -ENOENT && answer->inode)
        inode_forget(f, answer->inode, 1);
}

/* Perform an operation behind the gate and reply with its result. `op` may use f, who and, for an entry, answer. */
#define REPLY_STATUS(req, op)                                                                                                  \
    do {                                                                                                                       \
        BEGIN(req);                                                                                                            \
        int r = op;                                                                                                            \
        END();                                                                                                                 \
        fuse_reply_err(req, r < 0 ? -r : 0);                                                                                   \
    } while (0)

#define REPLY_ENTRY(req, op)                                                                                                   \
    do {                                                                                                                       \
        struct entry_answer answer = { 0 };                                                                                    \
        BEGIN(req);                                                                                                            \
        int r = op;                                                                                                            \
        END();                                                                                                                 \
        reply_entry(req, f, r, &answer);                                                                                       \
    } while (0)

#define REPLY_WRITTEN(req, op)                                                                                                 \
    do {                                                                                                                       \
        BEGIN(req);                                                                                                            \
        ssize_t n = op;                                                                                                        \
        END();                                                                                                                 \
        if (n < 0)                                                                                                             \
            fuse_reply_err(req, (int) -n);                                                                                     \
        else                                                                                                                   \
            fuse_reply_write(req, (size_t) n);                                                                                 \
    } while (0)

static void on_init(void *userdata, struct fuse_conn_info *conn)
{
    (void) userdata;
    /* No FUSE_CAP_WRITEBACK_CACHE, although sequential writes would be faster: the quota must answer at write time, a refused
     * write must reach its writer, and the kernel would prefer its own size and times to those of a live base or of new rules.
     * O_TRUNC comes as SETATTR, because there is no OPEN to carry it. We invalidate pages and attributes ourselves: the
     * kernel's own rule (a new mtime) would drop pages that a client has just written. No FUSE_CAP_ASYNC_DIO: the kernel drops
     * the pages under an O_DIRECT write before it sends it and, if it waits for the answer, again afterwards. For a write that
     * it does not wait for (io_submit) it never does the second, so a page that was read in between would stay, older than the
     * file (seen with Linux 6.18). Without the flag such writes are made one after the other. */
    conn->want &= ~(unsigned) (FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_READDIRPLUS_AUTO |
                               FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS | FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
                               FUSE_CAP_SPLICE_MOVE | FUSE_CAP_HANDLE_KILLPRIV | FUSE_CAP_ASYNC_DIO);
    conn->want |= conn->capable &
                  (FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_READDIRPLUS | FUSE_CAP_NO_OPEN_SUPPORT |
                   FUSE_CAP_NO_OPENDIR_SUPPORT | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ASYNC_READ | FUSE_CAP_EXPIRE_ONLY);
    conn->max_write = REPLY_BYTES_MAX;
    conn->max_readahead = REPLY_BYTES_MAX;
    conn->max_background = SESSION_BACKGROUND_MAX; /* session_await_writeback() relies on it */
    conn->congestion_threshold = SESSION_BACKGROUND_MAX * 3 / 4;
    conn->time_gran = 1;
}

/* An answer about a file that changed in an unwatched directory: attributes newer than the cached pages would tear it. */
struct deferred_reply {
    fuse_req_t req;
    struct fence *f;
    struct entry_answer answer;
    bool is_entry;
};

static void reply_attr(fuse_req_t req, int r, const struct entry_answer *answer);

static void on_invalidated(void *cookie)
{
    struct deferred_reply *reply = cookie;

    if (reply->is_entry)
        reply_entry(reply->req, reply->f, 0, &reply->answer);
    else
        reply_attr(reply->req, 0, &reply->answer);
    free(reply);
}

static void reply_deferred(fuse_req_t req, struct fence *f, const struct entry_answer *answer, bool is_entry)
{
    struct deferred_reply *reply = xnew(struct deferred_reply);

    *reply = (struct deferred_reply){ req, f, *answer, is_entry };
    invalidate_then(f, answer->inode, on_invalidated, reply);
}

static void on_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct entry_answer answer = { 0 };

    BEGIN(req);
    int r = op_lookup(f, &who, inode_of(f, parent), name, &answer);
    END();
    if (r == 0 && answer.is_stale)
        reply_deferred(req, f, &answer, true);
    else
        reply_entry(req, f, r, &answer);
}

static void on_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
    struct fence *f = fence_of(req);

    if (ino != FUSE_ROOT_ID)
        inode_forget(f, inode_of(f, ino), count);
    fuse_reply_none(req);
}

static void on_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    struct fence *f = fence_of(req);

    for (size_t i = 0; i < count; i++) {
        if (forgets[i].ino != FUSE_ROOT_ID)
            inode_forget(f, inode_of(f, forgets[i].ino), forgets[i].nlookup);
    }
    fuse_reply_none(req);
}

static void reply_attr(fuse_req_t req, int r, const struct entry_answer *answer)
{
    if (r < 0)
        fuse_reply_err(req, -r);
    else
        fuse_reply_attr(req, &answer->st, answer->attr_timeout_s);
}

static void on_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct entry_answer answer = { 0 };

    (void) fi;
    BEGIN(req);
    int r = op_getattr(f, &who, inode_of(f, ino), &answer);
    END();
    if (r == 0 && answer.is_stale)
        reply_deferred(req, f, &answer, false);
    else
        reply_attr(req, r, &answer);
}

static void on_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
    struct entry_answer answer = { 0 };

    (void) fi;
    BEGIN(req);
    int r = op_setattr(f, &who, inode_of(f, ino), attr, to_set, &answer);
    END();
    reply_attr(req, r, &answer);
}

static void on_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
    REPLY_STATUS(req, op_access(f, &who, inode_of(f, ino), mask));
}

static void on_readlink(fuse_req_t req, fuse_ino_t ino)
{
    char target[PATH_MAX];

    BEGIN(req);
    int r = op_readlink(f, &who, inode_of(f, ino), target);
    END();
    if (r < 0)
        fuse_reply_err(req, -r);
    else
        fuse_reply_readlink(req, target);
}

static void on_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
    (void) rdev;
    REPLY_ENTRY(req, op_mknod(f, &who, inode_of(f, parent), name, mode, &answer));
}

static void on_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    REPLY_ENTRY(req, op_mkdir(f, &who, inode_of(f, parent), name, mode, &answer));
}

static void on_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    REPLY_ENTRY(req, op_symlink(f, &who, inode_of(f, parent), name, target, &answer));
}

static void on_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
    REPLY_ENTRY(req, op_link(f, &who, inode_of(f, ino), inode_of(f, parent), name, &answer));
}

static void on_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    REPLY_STATUS(req, op_unlink(f, &who, inode_of(f, parent), name));
}

static void on_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    REPLY_STATUS(req, op_rmdir(f, &who, inode_of(f, parent), name));
}

static void on_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname,
                      unsigned flags)
{
    REPLY_STATUS(req, op_rename(f, &who, inode_of(f, parent), name, inode_of(f, newparent), newname, flags));
}

/* struct fuse_open_out of Linux 6.9, whose last field older headers call padding. */
struct open_out {
    uint64_t fh;
    uint32_t open_flags;
    int32_t backing_id;
};

enum { OPEN_KEEP_CACHE = 1 << 1, OPEN_PASSTHROUGH = 1 << 7 };

/* ENOSYS is sent once; from then on the kernel opens files by itself. */
static void on_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct open_out out = { .open_flags = OPEN_KEEP_CACHE };

    if (!fence_of(req)->passthrough) {
        fuse_reply_err(req, ENOSYS);
        return;
    }
    BEGIN(req);
    struct inode *inode = inode_of(f, ino);
    int id = op_open(f, &who, inode, fi->flags);
    END();
    if (id < 0) {
        fuse_reply_err(req, -id);
        return;
    }
    if (id > 0)
        out = (struct open_out){ .open_flags = OPEN_PASSTHROUGH, .backing_id = id };
    if (fuse_reply_buf(req, (const char *) &out, sizeof(out)) == -ENOENT)
        op_release(f, inode);
}

static void on_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct fence *f = fence_of(req);

    (void) fi;
    if (f->passthrough)
        op_release(f, inode_of(f, ino));
    fuse_reply_err(req, 0);
}

/* In either data path the kernel opens directories by itself. */
static void on_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void) ino;
    (void) fi;
    fuse_reply_err(req, ENOSYS);
}

/* Workers keep their buffer: a megabyte is too much for the stack, and allocating one per request costs page faults. */
static __thread char *read_bytes;

void reply_free_buffer(void)
{
    free(read_bytes);
    read_bytes = NULL;
}

static void on_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
    char small[16384], *bytes = small;
    ssize_t n = 0;

    (void) fi;
    if (size > REPLY_BYTES_MAX)
        size = REPLY_BYTES_MAX;
    if (size > sizeof(small)) {
        if (!read_bytes)
            read_bytes = malloc(REPLY_BYTES_MAX);
        bytes = read_bytes;
    }
    BEGIN(req);
    n = bytes ? op_read(f, &who, inode_of(f, ino), bytes, size, offset) : -ENOMEM;
    END();
    if (n < 0)
        fuse_reply_err(req, (int) -n);
    else
        fuse_reply_buf(req, bytes, (size_t) n);
}

static ssize_t reply_write_bytes(int fd, size_t size, off_t offset, void *cookie)
{
    const char *bytes = cookie;
    size_t done = 0;

    while (done < size) {
        ssize_t n = pwrite(fd, bytes + done, size - done, offset + (off_t) done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return done > 0 ? (ssize_t) done : n < 0 ? -errno : -ENOSPC;
        done += (size_t) n;
    }
    return (ssize_t) done;
}

static void on_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size, off_t offset, struct fuse_file_info *fi)
{
    (void) fi;
    REPLY_WRITTEN(req, op_write(f, &who, inode_of(f, ino), size, offset, reply_write_bytes, (void *) (uintptr_t) bytes));
}

static void on_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    (void) fi;
    REPLY_STATUS(req, op_fsync(f, &who, inode_of(f, ino), datasync));
}

static void on_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length, struct fuse_file_info *fi)
{
    (void) fi;
    REPLY_STATUS(req, op_fallocate(f, &who, inode_of(f, ino), mode, offset, length));
}

static void on_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi)
{
    off_t at = 0;

    (void) fi;
    BEGIN(req);
    int r = op_lseek(f, &who, inode_of(f, ino), offset, whence, &at);
    END();
    if (r < 0)
        fuse_reply_err(req, -r);
    else
        fuse_reply_lseek(req, at);
}

static void on_copy_file_range(fuse_req_t req, fuse_ino_t from, off_t from_offset, struct fuse_file_info *from_fi,
                               fuse_ino_t to, off_t to_offset, struct fuse_file_info *to_fi, size_t size, int flags)
{
    (void) from_fi;
    (void) to_fi;
    (void) flags;
    REPLY_WRITTEN(req, op_copy_range(f, &who, inode_of(f, from), from_offset, inode_of(f, to), to_offset, size));
}

struct dir_reply {
    fuse_req_t req;
    struct fence *f;
    char *bytes;
    size_t used, size;
};

static bool reply_add_dirent(const char *name, uint64_t ino, uint8_t type, uint64_t cookie, const struct entry_answer *answer,
                             void *user)
{
    struct dir_reply *d = user;
    size_t room = d->size - d->used, need;
    struct stat st = { .st_ino = ino, .st_mode = (mode_t) type << 12 };
    struct fuse_entry_param e;

    if (answer) {
        reply_fill_entry(d->f, answer, &e);
        need = fuse_add_direntry_plus(d->req, d->bytes + d->used, room, name, &e, (off_t) cookie);
    } else {
        need = fuse_add_direntry(d->req, d->bytes + d->used, room, name, &st, (off_t) cookie);
    }
    if (need > room)
        return false;
    d->used += need;
    return true;
}

static void reply_listing(fuse_req_t req, fuse_ino_t ino, size_t size, off_t after, bool with_attrs)
{
    struct dir_reply d = { .req = req, .size = size < REPLY_BYTES_MAX ? size : REPLY_BYTES_MAX };
    autofree char *bytes = malloc(d.size);

    BEGIN(req);
    d.f = f;
    d.bytes = bytes;
    int r = bytes ? op_readdir(f, &who, inode_of(f, ino), (uint64_t) after, with_attrs, reply_add_dirent, &d) : -ENOMEM;
    END();
    if (r < 0)
        fuse_reply_err(req, -r);
    else
        fuse_reply_buf(req, bytes, d.used);
}

static void on_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t after, struct fuse_file_info *fi)
{
    (void) fi;
    reply_listing(req, ino, size, after, false);
}

static void on_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t after, struct fuse_file_info *fi)
{
    (void) fi;
    reply_listing(req, ino, size, after, true);
}

static void on_statfs(fuse_req_t req, fuse_ino_t ino)
{
    struct statvfs st;

    (void) ino;
    BEGIN(req);
    int r = op_statfs(f, &who, &st);
    END();
    if (r < 0)
        fuse_reply_err(req, -r);
    else
        fuse_reply_statfs(req, &st);
}

/* Size 0 asks for the size of the buffer needed. */
static void reply_xattr(fuse_req_t req, size_t size, const char *bytes, ssize_t n)
{
    if (n < 0)
        fuse_reply_err(req, (int) -n);
    else if (size == 0)
        fuse_reply_xattr(req, (size_t) n);
    else
        fuse_reply_buf(req, bytes, (size_t) n);
}

static void on_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    autofree char *bytes = size ? malloc(size) : NULL;

    BEGIN(req);
    ssize_t n = size && !bytes ? -ENOMEM : op_getxattr(f, &who, inode_of(f, ino), name, bytes, size);
    END();
    reply_xattr(req, size, bytes, n);
}

static void on_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    autofree char *bytes = size ? malloc(size) : NULL;

    BEGIN(req);
    ssize_t n = size && !bytes ? -ENOMEM : op_listxattr(f, &who, inode_of(f, ino), bytes, size);
    END();
    reply_xattr(req, size, bytes, n);
}

static void on_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
    REPLY_STATUS(req, op_setxattr(f, &who, inode_of(f, ino), name, value, size, flags));
}

static void on_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    REPLY_STATUS(req, op_removexattr(f, &who, inode_of(f, ino), name));
}

/* libfuse answers missing operations with ENOSYS, and the kernel stops sending them: FLUSH; TMPFILE (EOPNOTSUPP for the
 * caller); locks, which the kernel then keeps itself. */
const struct fuse_lowlevel_ops reply_ops = {
    .init = on_init,
    .lookup = on_lookup,
    .forget = on_forget,
    .forget_multi = on_forget_multi,
    .getattr = on_getattr,
    .setattr = on_setattr,
    .access = on_access,
    .readlink = on_readlink,
    .mknod = on_mknod,
    .mkdir = on_mkdir,
    .symlink = on_symlink,
    .link = on_link,
    .unlink = on_unlink,
    .rmdir = on_rmdir,
    .rename = on_rename,
    .open = on_open,
    .opendir = on_opendir,
    .release = on_release,
    .read = on_read,
    .write = on_write,
    .fsync = on_fsync,
    .fsyncdir = on_fsync,
    .fallocate = on_fallocate,
    .lseek = on_lseek,
    .copy_file_range = on_copy_file_range,
    .readdir = on_readdir,
    .readdirplus = on_readdirplus,
    .statfs = on_statfs,
    .getxattr = on_getxattr,
    .listxattr = on_listxattr,
    .setxattr = on_setxattr,
    .removexattr = on_removexattr,
};
