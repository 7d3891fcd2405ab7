#include "supervisor/file_op.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/directory.h"
#include "base/mem.h"

#define COPY_BYTES 65536
#define OPEN_TURNS_MAX 16

/* Does not cross mounts either: anything else mounted in the workspace belongs to the host. */
static int open_in(int dir, const char *path, int flags, mode_t mode)
{
    struct open_how how = { .flags = (uint64_t) (flags | O_CLOEXEC | O_NOFOLLOW), .mode = flags & O_CREAT ? mode : 0 };
    long fd;

    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
    do
        fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
    while (fd < 0 && (errno == EINTR || errno == EAGAIN));
    return fd < 0 ? -errno : (int) fd;
}

/* Opens the directory of the path's last name. -EINVAL for a path without one. */
static int open_parent(int root, const char *path, int *ret_fd, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    autofree char *parent = slash ? xdupn(path, (size_t) (slash - path)) : xdup(".");

    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return -EINVAL;
    if (slash == path)
        return -EXDEV;
    *ret_fd = open_in(root, parent, O_PATH | O_DIRECTORY, 0);
    *ret_name = name;
    return *ret_fd < 0 ? *ret_fd : 0;
}

int file_op_open_root(const char *mount_point, bool is_plain)
{
    autofd int fd = open(mount_point, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    struct statfs fs;
    struct statx root;

    if (fd < 0)
        return -errno;
    if (fstatfs(fd, &fs) < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &root) < 0)
        return -errno;
    if (is_plain)
        return root.stx_attributes & STATX_ATTR_MOUNT_ROOT ? steal_fd(&fd) : -ENOTCONN;
    return fs.f_type == FUSE_SUPER_MAGIC ? steal_fd(&fd) : -ENOTCONN;
}

/* Changing the fsuid also drops the capabilities to ignore file modes, for this thread only. */
int file_op_become(uid_t uid, gid_t gid)
{
    setfsgid(gid);
    setfsuid(uid);
    return (uid_t) setfsuid((uid_t) -1) == uid && (gid_t) setfsgid((gid_t) -1) == gid ? 0 : -EPERM;
}

static void file_op_describe(const struct stat *st, struct ctl_file *ret)
{
    *ret = (struct ctl_file){ .mode = st->st_mode & 0777, .size = (uint64_t) st->st_size, .text = "" };
    ret->mtime_ns = (int64_t) st->st_mtim.tv_sec * CLOCK_NS_PER_SEC + st->st_mtim.tv_nsec;
    switch (st->st_mode & S_IFMT) {
    case S_IFREG:
        ret->kind = CTL_FILE_REGULAR;
        break;
    case S_IFDIR:
        ret->kind = CTL_FILE_DIRECTORY;
        break;
    case S_IFLNK:
        ret->kind = CTL_FILE_SYMLINK;
        break;
    default:
        ret->kind = CTL_FILE_OTHER;
    }
}

int file_op_stat(int root, const char *path, char target[CTL_PATH_MAX], struct ctl_file *ret)
{
    autofd int fd = open_in(root, path, O_PATH, 0);
    struct stat st;
    ssize_t n;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    file_op_describe(&st, ret);
    if (ret->kind != CTL_FILE_SYMLINK)
        return 0;
    n = readlinkat(fd, "", target, CTL_PATH_MAX - 1);
    if (n < 0 && errno != EACCES)
        return -errno;
    target[n < 0 ? 0 : n] = 0; /* a symlink that may only be seen keeps its target secret */
    ret->text = target;
    return 0;
}

struct file_op_names {
    char **items; /* owned, with its strings */
    size_t count, cap;
};

static void names_done(struct file_op_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
}

static int cmp_names(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

static int read_names(int take_fd, const char *after, struct file_op_names *names)
{
    autodirectory dir = directory_take(take_fd);
    int r = 0;

    if (!dir)
        return -errno;
    errno = 0;
    for (const struct dirent *d; r == 0 && (d = directory_next(dir));) {
        if (strcmp(d->d_name, after) <= 0)
            continue;
        if (names->count >= FILE_OP_NAMES_MAX)
            r = -E2BIG;
        vec_room(&names->items, &names->cap, names->count);
        names->items[names->count++] = xdup(d->d_name);
    }
    if (r == 0 && errno)
        r = -errno;
    if (names->count > 0)
        qsort(names->items, names->count, sizeof(*names->items), cmp_names);
    return r;
}

/* An entry on another file system was mounted there by the host: only its name is reported. */
static bool describe_name(int dir, dev_t dev, const char *name, struct ctl_file *ret)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
        return false;
    if (st.st_dev == dev)
        file_op_describe(&st, ret);
    else
        *ret = (struct ctl_file){ .kind = S_ISDIR(st.st_mode) ? CTL_FILE_DIRECTORY : CTL_FILE_OTHER };
    ret->text = name;
    return true;
}

int file_op_list(int root, const char *path, const char *after, uint8_t *buf, struct ctl_listing *ret)
{
    autofd int dir = open_in(root, path, O_RDONLY | O_DIRECTORY, 0);
    struct file_op_names names = { 0 };
    struct stat st;
    int copy, r;

    *ret = (struct ctl_listing){ 0 };
    if (dir < 0)
        return dir;
    if (fstat(dir, &st) < 0)
        return -errno;
    copy = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    r = copy < 0 ? -errno : read_names(copy, after, &names);
    for (size_t i = 0; r == 0 && i < names.count && !ret->has_more; i++) {
        struct ctl_file file;
        if (describe_name(dir, st.st_dev, names.items[i], &file))
            ret->has_more = !ctl_listing_add(ret, buf, &file);
    }
    names_done(&names);
    return r;
}

/* Opening any other file may block or have side effects. */
static int require_regular(int take_fd, struct stat *ret)
{
    int r = fstat(take_fd, ret) < 0 ? -errno : S_ISDIR(ret->st_mode) ? -EISDIR : S_ISREG(ret->st_mode) ? 0 : -EINVAL;

    if (r == 0)
        return take_fd;
    close(take_fd);
    return r;
}

int file_op_open(int root, const char *path, struct ctl_file *ret)
{
    int fd = open_in(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    struct stat st;

    fd = fd < 0 ? fd : require_regular(fd, &st);
    if (fd >= 0)
        file_op_describe(&st, ret);
    return fd;
}

static int make_parents(int root, const char *path)
{
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        autofree char *here = xdupn(path, (size_t) (slash - path));
        int r = file_op_mkdir(root, here, 0, 0755);
        if (r < 0 && r != -EEXIST)
            return r;
    }
    return 0;
}

/* The caller must know whether it created the file, while the agent and others may create and remove it concurrently. */
static int open_or_make(int root, const char *path, bool is_exclusive, mode_t mode, bool *ret_is_new)
{
    const int flags = O_WRONLY | O_NONBLOCK | O_NOCTTY;
    int fd = is_exclusive ? -ENOENT : open_in(root, path, flags, 0);

    for (int turns = 0; fd == -ENOENT && turns < OPEN_TURNS_MAX; turns++) {
        fd = open_in(root, path, flags | O_CREAT | O_EXCL, mode);
        *ret_is_new = fd >= 0;
        if (fd == -EEXIST && !is_exclusive)
            fd = open_in(root, path, flags, 0);
    }
    return fd == -ENXIO ? -EINVAL : fd; /* a FIFO without a reader */
}

int file_op_create(int root, const char *path, uint32_t flags, mode_t mode, uint64_t size)
{
    bool is_new = false;
    struct stat st;
    int r = flags & CTL_FILE_PARENTS ? make_parents(root, path) : 0, fd;

    if (r < 0)
        return r;
    fd = open_or_make(root, path, flags & CTL_FILE_EXCLUSIVE, mode, &is_new);
    fd = fd < 0 ? fd : require_regular(fd, &st);
    /* A file system without fallocate() reports a lack of space when the file is written. */
    if (fd < 0 || size == 0 || fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t) size) == 0 || errno == EOPNOTSUPP)
        return fd;
    r = -errno;
    close(fd);
    if (is_new)
        file_op_remove(root, path, 0);
    return r;
}

int file_op_mkdir(int root, const char *path, uint32_t flags, mode_t mode)
{
    autofd int dir = -1, there = -1;
    const char *name = NULL;
    int r = flags & CTL_FILE_PARENTS ? make_parents(root, path) : 0;

    if (r == 0)
        r = open_parent(root, path, &dir, &name);
    if (r < 0)
        return r;
    if (mkdirat(dir, name, mode) == 0)
        return 0;
    r = -errno;
    if (r != -EEXIST || !(flags & CTL_FILE_PARENTS))
        return r;
    there = open_in(dir, name, O_PATH | O_DIRECTORY, 0);
    return there < 0 ? there : 0;
}

static int remove_name(int dir, const char *name, bool is_recursive, unsigned depth);

static int empty_dir(int take_fd, unsigned depth)
{
    autofd int dir = fcntl(take_fd, F_DUPFD_CLOEXEC, 3);
    struct file_op_names names = { 0 };
    int r = dir < 0 ? -errno : 0;

    if (r < 0) {
        close(take_fd);
        return r;
    }
    r = read_names(take_fd, "", &names);
    for (size_t i = 0; r == 0 && i < names.count; i++) {
        r = remove_name(dir, names.items[i], true, depth + 1);
        r = r == -ENOENT ? 0 : r;
    }
    names_done(&names);
    return r;
}

static int remove_name(int dir, const char *name, bool is_recursive, unsigned depth)
{
    int r, sub;

    if (depth > FILE_OP_DEPTH_MAX)
        return -ENAMETOOLONG;
    if (unlinkat(dir, name, 0) == 0)
        return 0;
    if (errno != EISDIR)
        return -errno;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
        return 0;
    r = -errno;
    if (r != -ENOTEMPTY || !is_recursive)
        return r;
    sub = open_in(dir, name, O_RDONLY | O_DIRECTORY, 0);
    r = sub < 0 ? sub : empty_dir(sub, depth);
    if (r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0)
        r = -errno;
    return r;
}

int file_op_remove(int root, const char *path, uint32_t flags)
{
    autofd int dir = -1;
    const char *name = NULL;
    int r = open_parent(root, path, &dir, &name);

    return r < 0 ? r : remove_name(dir, name, flags & CTL_FILE_RECURSIVE, 0);
}

int file_op_rename(int root, const char *path, const char *new_path, uint32_t flags)
{
    autofd int from = -1, to = -1;
    const char *name = NULL, *new_name = NULL;
    struct stat st;
    int r = open_parent(root, path, &from, &name);

    if (r == 0 && fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
        r = -errno;
    if (r == 0 && flags & CTL_FILE_PARENTS)
        r = make_parents(root, new_path);
    if (r == 0)
        r = open_parent(root, new_path, &to, &new_name);
    if (r < 0)
        return r;
    return renameat2(from, name, to, new_name, flags & CTL_FILE_EXCLUSIVE ? RENAME_NOREPLACE : 0) < 0 ? -errno : 0;
}

/* poll() reports regular files as always ready. */
static int wait_for(int fd, short events, int cancel_fd)
{
    struct pollfd fds[2] = { { fd, events, 0 }, { cancel_fd, POLLIN, 0 } };

    while (poll(fds, 2, -1) < 0) {
        if (errno != EINTR)
            return -errno;
    }
    return fds[1].revents ? -ECANCELED : 0;
}

static int write_all(int to, const char *bytes, size_t len, int cancel_fd)
{
    while (len > 0) {
        int r = wait_for(to, POLLOUT, cancel_fd);
        ssize_t n = r < 0 ? 0 : write(to, bytes, len);
        if (r < 0)
            return r;
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t) n : 0;
    }
    return 0;
}

int64_t file_op_copy(int from, int to, uint64_t size, int cancel_fd)
{
    autofree char *bytes = xalloc(COPY_BYTES);
    uint64_t done = 0;

    while (done < size) {
        size_t most = size - done < COPY_BYTES ? (size_t) (size - done) : COPY_BYTES;
        int r = wait_for(from, POLLIN, cancel_fd);
        ssize_t n = r < 0 ? 0 : read(from, bytes, most);
        if (r < 0)
            return r;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return n < 0 ? -errno : (int64_t) done;
        r = write_all(to, bytes, (size_t) n, cancel_fd);
        if (r < 0)
            return r;
        done += (uint64_t) n;
    }
    return (int64_t) done;
}
