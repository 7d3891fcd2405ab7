#include "codebase/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "codebase/trim.h"

#define PREFIX "tx_"

/* Up to this number, objects are synced one by one. Above it one syncfs() is cheaper, although it also waits for data of other
 * programs. */
#define SYNC_SINGLY_MAX 8

/* How often recovery may remove the directory between its creation and its lock before we give up. */
#define TRIES 16

#define COPY_CHUNK (1 << 16)
#define XATTR_NAMES_MAX 4096
#define XATTR_VALUE_MAX 65536

static int try_make(struct stage *stage)
{
    struct stat st;
    autofd int fd = -1;

    id_new(PREFIX, stage->name);
    if (mkdirat(stage->cb->stage_fd, stage->name, 0700) < 0)
        return -errno;
    fd = path_open_beneath(stage->cb->stage_fd, stage->name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fd == -ENOENT ? -EAGAIN : fd;
    /* Recovery may have found it before we had the lock. Then it is gone, or will be. */
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    if (fstatat(stage->cb->stage_fd, stage->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? -EAGAIN : -errno;
    stage->fd = steal_fd(&fd);
    return 0;
}

int stage_init(struct stage *stage, struct codebase *cb)
{
    int r = -EAGAIN;

    *stage = STAGE_NONE;
    stage->cb = cb;
    for (int i = 0; i < TRIES && r == -EAGAIN; i++)
        r = try_make(stage);
    return r;
}

void stage_done(struct stage *stage)
{
    int saved = errno;

    if (stage->fd >= 0) {
        if (!stage->is_committed)
            file_remove_tree(stage->cb->stage_fd, stage->name);
        close(stage->fd);
        if (stage->has_trimmed)
            trim_sweep(stage->cb);
    }
    stage->fd = -1;
    errno = saved;
}

int stage_collect_one(int dirfd, const char *name)
{
    autofd int fd = path_open_beneath(dirfd, name, O_RDONLY | O_DIRECTORY, 0);

    if (fd == -ENOENT)
        return 0;
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? 0 : -errno;
    return file_remove_tree(dirfd, name);
}

struct stage_collection {
    struct codebase *cb;
    int first; /* failure */
};

static int collect_name(const char *name, void *cookie)
{
    struct stage_collection *c = cookie;
    int r = stage_collect_one(c->cb->stage_fd, name);

    if (r < 0 && c->first == 0)
        c->first = r;
    return 0;
}

int stage_collect(struct codebase *cb)
{
    struct stage_collection c = { .cb = cb };
    int r = tree_each_name(cb->stage_fd, collect_name, &c);

    return r < 0 ? r : c.first;
}

static void copy_xattrs(int from, int to)
{
    char names[XATTR_NAMES_MAX];
    ssize_t len = flistxattr(from, names, sizeof(names));
    autofree char *value = NULL;

    if (len <= 0)
        return;
    value = xalloc(XATTR_VALUE_MAX);
    for (const char *name = names; name < names + len; name += strlen(name) + 1) {
        ssize_t size = strncmp(name, "user.", 5) == 0 ? fgetxattr(from, name, value, XATTR_VALUE_MAX) : -1;

        if (size >= 0)
            (void) fsetxattr(to, name, value, (size_t) size, 0);
    }
}

static int copy_bytes(int from, int to)
{
    char chunk[COPY_CHUNK];
    ssize_t n;

    if (ioctl(to, FICLONE, from) == 0)
        return 0;
    while ((n = fd_read_full(from, chunk, sizeof(chunk))) > 0) {
        int r = fd_write_full(to, chunk, (size_t) n);

        if (r < 0)
            return r;
    }
    return (int) n;
}

static int copy_file(int from_dirfd, const char *from, int to_dirfd, const char *to)
{
    autofd int in = path_open_beneath(from_dirfd, from, O_RDONLY | O_NONBLOCK, 0), out = -1;
    struct stat st;
    int r;

    if (in < 0)
        return in;
    if (fstat(in, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    out = path_open_beneath(to_dirfd, to, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (out < 0)
        return out;
    r = copy_bytes(in, out);
    if (r < 0)
        return r;
    copy_xattrs(in, out);
    struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, st.st_mtim };
    if (fchmod(out, (st.st_mode & 0777) | 0400) < 0 || futimens(out, times) < 0)
        return -errno;
    return 0;
}

static int copy_link(int from_dirfd, const char *from, int to_dirfd, const char *to, const struct stat *st)
{
    struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, st->st_mtim };
    char target[PATH_MAX];
    ssize_t len = readlinkat(from_dirfd, from, target, sizeof(target) - 1);

    if (len < 0)
        return -errno;
    target[len] = 0;
    if (symlinkat(target, to_dirfd, to) < 0 || utimensat(to_dirfd, to, times, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

struct copying {
    int to_fd;
};

static int copy_entry(const struct file_entry *e, void *cookie)
{
    struct copying *c = cookie;
    autofd int parent = -1;
    const char *name;
    int r = path_open_parent_beneath(c->to_fd, e->path, &parent, &name);

    if (r < 0)
        return r;
    switch (tree_kind_of(e->st->st_mode)) {
    case TREE_FILE:
        return copy_file(e->dirfd, e->name, parent, name);
    case TREE_LINK:
        return copy_link(e->dirfd, e->name, parent, name, e->st);
    case TREE_DIR:
        return mkdirat(parent, name, (e->st->st_mode & 0777) | 0700) < 0 ? -errno : 0;
    case TREE_NONE:
        break;
    }
    return 0;
}

int stage_copy(int from_dirfd, const char *from, int to_dirfd, const char *to)
{
    struct copying c = { .to_fd = -1 };
    struct stat st;
    int r;

    if (fstatat(from_dirfd, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    switch (tree_kind_of(st.st_mode)) {
    case TREE_FILE:
        return copy_file(from_dirfd, from, to_dirfd, to);
    case TREE_LINK:
        return copy_link(from_dirfd, from, to_dirfd, to, &st);
    case TREE_DIR:
        break;
    case TREE_NONE:
        return -EINVAL;
    }
    if (mkdirat(to_dirfd, to, (st.st_mode & 0777) | 0700) < 0)
        return -errno;
    c.to_fd = path_open_beneath(to_dirfd, to, O_PATH | O_DIRECTORY, 0);
    if (c.to_fd < 0)
        return c.to_fd;
    r = file_walk(from_dirfd, from, copy_entry, &c, NULL);
    close(c.to_fd);
    return r;
}

int stage_tame(int dirfd, const char *name, const struct stat *st)
{
    mode_t mode = (st->st_mode & 0777) | (S_ISDIR(st->st_mode) ? 0700 : 0400);
    autofd int fd = -1;
    char self[40];

    if (st->st_uid != geteuid() && fchownat(dirfd, name, geteuid(), getegid(), AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISLNK(st->st_mode))
        return 0;
    fd = path_open_beneath(dirfd, name, O_PATH, 0);
    if (fd < 0)
        return fd;
    /* Uses /proc, because even the owner may lack permission to open the file. */
    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    if ((st->st_mode & 07777) != mode && chmod(self, mode) < 0)
        return -errno;
    (void) removexattr(self, "security.capability");
    (void) removexattr(self, "system.posix_acl_access");
    return 0;
}

static int sync_entry(const struct file_entry *e, void *cookie)
{
    autofd int fd = -1;

    (void) cookie;
    if (S_ISLNK(e->st->st_mode))
        return 0;
    fd = path_open_beneath(e->dirfd, e->name, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    return fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}

int stage_sync(struct stage *stage, size_t objects)
{
    if (objects > SYNC_SINGLY_MAX)
        return syncfs(stage->fd) < 0 ? -errno : 0;
    return file_walk(stage->fd, ".", sync_entry, NULL, NULL);
}
