#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"

int file_fsync_dir(int dirfd)
{
    autofd int dir = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0)
        return -errno;
    /* EINVAL means that this file system cannot sync directories. */
    return fsync(dir) < 0 && errno != EINVAL ? -errno : 0;
}

/* Does everything that can fail for lack of descriptors or permissions before there is anything to undo. Opens the directory
 * for reading because an O_PATH descriptor cannot be synced. */
static int open_directory(int dirfd, const char *relname, struct file_pending *pending)
{
    autofd int parent = -1;
    const char *name;
    int r;

    r = path_open_parent_beneath(dirfd, relname, &parent, &name);
    if (r < 0)
        return r;
    if (strlen(name) >= sizeof(pending->name))
        return -ENAMETOOLONG;
    memcpy(pending->name, name, strlen(name) + 1);
    pending->dirfd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return pending->dirfd < 0 ? -errno : 0;
}

static int create_temp(struct file_pending *pending, mode_t mode)
{
    id_new(FILE_TEMP_PREFIX, pending->temp);
    pending->fd = path_open_beneath(pending->dirfd, pending->temp, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (pending->fd < 0)
        return pending->fd;
    return fchmod(pending->fd, mode & 07777) < 0 ? -errno : 0;
}

int file_replace_begin(int dirfd, const char *relname, mode_t mode, struct file_pending *ret)
{
    struct file_pending pending = FILE_PENDING_NONE;
    int r;

    r = open_directory(dirfd, relname, &pending);
    if (r >= 0)
        r = create_temp(&pending, mode);
    if (r < 0) {
        file_replace_abort(&pending);
        return r;
    }
    *ret = pending;
    return 0;
}

static void file_pending_release(struct file_pending *pending)
{
    cleanup_fd(&pending->fd);
    cleanup_fd(&pending->dirfd);
    *pending = FILE_PENDING_NONE;
}

int file_replace_commit(struct file_pending *pending)
{
    int r = 0;

    /* The bytes must be on disk before the name points at them. Otherwise a power cut leaves an empty file. */
    if (fsync(pending->fd) < 0 || renameat(pending->dirfd, pending->temp, pending->dirfd, pending->name) < 0) {
        r = -errno;
        file_replace_abort(pending);
        return r;
    }
    if (fsync(pending->dirfd) < 0 && errno != EINVAL)
        r = -errno;
    file_pending_release(pending);
    return r;
}

int file_replace_commit_opened(struct file_pending *pending, int fd)
{
    int flags = fcntl(fd, F_GETFL), r;
    autofd int ours = fcntl(pending->fd, F_DUPFD_CLOEXEC, 0);
    struct stat st;

    /* Steps that may fail for lack of descriptors come before the rename. Afterwards the caller must not keep writing to the
     * old file. */
    if (flags < 0 || ours < 0 || fcntl(ours, F_SETFL, flags) < 0) {
        r = -errno;
        file_replace_abort(pending);
        return r;
    }
    r = file_replace_commit(pending);
    if (fstat(ours, &st) == 0 && st.st_nlink > 0) {
        while (dup3(ours, fd, O_CLOEXEC) < 0 && (errno == EINTR || errno == EBUSY))
            ;
    }
    return r;
}

void file_replace_abort(struct file_pending *pending)
{
    int saved = errno;

    if (pending->fd >= 0)
        unlinkat(pending->dirfd, pending->temp, 0);
    file_pending_release(pending);
    errno = saved;
}

static int begin_with(int dirfd, const char *relname, const void *bytes, size_t len, mode_t mode, struct file_pending *ret)
{
    int r = file_replace_begin(dirfd, relname, mode, ret);

    if (r < 0)
        return r;
    r = fd_write_full(ret->fd, bytes, len);
    if (r < 0)
        file_replace_abort(ret);
    return r;
}

int file_replace(int dirfd, const char *relname, const void *bytes, size_t len, mode_t mode)
{
    struct file_pending pending;
    int r = begin_with(dirfd, relname, bytes, len, mode, &pending);

    return r < 0 ? r : file_replace_commit(&pending);
}

int file_put(int dirfd, const char *relname, const void *bytes, size_t len, mode_t mode)
{
    struct file_pending pending;
    int r = begin_with(dirfd, relname, bytes, len, mode, &pending);

    if (r < 0)
        return r;
    if (renameat(pending.dirfd, pending.temp, pending.dirfd, pending.name) < 0) {
        r = -errno;
        file_replace_abort(&pending);
        return r;
    }
    file_pending_release(&pending);
    return 0;
}

int file_read(int dirfd, const char *relpath, size_t max, struct buf *out)
{
    autofd int fd = -1;
    struct stat st;

    /* O_NONBLOCK, because opening an untrusted FIFO waits for its writer; O_NOCTTY, because opening a terminal can make it
     * ours. */
    fd = path_open_beneath(dirfd, relpath, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return fd == -ENXIO ? -EINVAL : fd; /* ENXIO: a socket */
    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return -EISDIR;
    return S_ISREG(st.st_mode) ? fd_read_all(fd, max, out) : -EINVAL;
}

int file_read_kernel(const char *path, size_t max, struct buf *out)
{
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC);

    return fd < 0 ? -errno : fd_read_all(fd, max, out);
}

int file_write_kernel(const char *path, const char *text)
{
    autofd int fd = open(path, O_WRONLY | O_CLOEXEC);

    return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}
