#include "fence/whiteout.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "fence/inode.h"

bool whiteout_is_reserved(const char *name)
{
    return strncmp(name, WHITEOUT_PREFIX, strlen(WHITEOUT_PREFIX)) == 0;
}

static bool is_long(const char *name)
{
    return strlen(name) + strlen(WHITEOUT_PREFIX) > NAME_MAX;
}

/* Two 63-bit hashes with different seeds: a collision would delete the wrong file, so it must not be found by trying. */
void whiteout_name(const char *name, char out[NAME_MAX + 1])
{
    size_t len = strlen(name);

    if (is_long(name))
        snprintf(out, NAME_MAX + 1, WHITEOUT_HASHED "%016" PRIx64 "%016" PRIx64, inode_number_of(2, name, len),
                 inode_number_of(3, name, len));
    else
        snprintf(out, NAME_MAX + 1, WHITEOUT_PREFIX "%s", name);
}

static int read_long_name(int dirfd, const char *marker, char out[NAME_MAX + 1])
{
    autofd int fd = path_open_beneath(dirfd, marker, O_RDONLY | O_NONBLOCK, 0);
    char check[NAME_MAX + 1];
    ssize_t n = fd < 0 ? fd : fd_read_full(fd, out, NAME_MAX);

    if (n <= 0)
        return path_is_absent((int) n) ? 0 : (int) n;
    out[n] = 0;
    whiteout_name(out, check);
    return !strchr(out, '/') && strcmp(check, marker) == 0;
}

int whiteout_target(int dirfd, const char *marker, char out[NAME_MAX + 1])
{
    if (strncmp(marker, WHITEOUT_HASHED, strlen(WHITEOUT_HASHED)) == 0)
        return read_long_name(dirfd, marker, out);
    if (!whiteout_is_reserved(marker) || whiteout_is_reserved(marker + strlen(WHITEOUT_PREFIX)))
        return 0;
    snprintf(out, NAME_MAX + 1, "%s", marker + strlen(WHITEOUT_PREFIX));
    /* We write no such marker, but if there is one it must not mean the deletion of the directory it is in. */
    return *out != 0 && strcmp(out, ".") != 0 && strcmp(out, "..") != 0;
}

static int create_hashed(int work_fd, const char *temp, int dirfd, const char *marker, const char *name)
{
    autofd int fd = openat(work_fd, temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r;

    if (fd < 0)
        return -errno;
    r = fd_write_full(fd, name, strlen(name));
    if (r == 0 && renameat(work_fd, temp, dirfd, marker) < 0)
        r = -errno;
    if (r < 0)
        unlinkat(work_fd, temp, 0);
    return r;
}

int whiteout_create_in_place(int dirfd, const char *name)
{
    char marker[NAME_MAX + 1];

    whiteout_name(name, marker);
    autofd int fd = openat(dirfd, marker, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    return is_long(name) ? fd_write_full(fd, name, strlen(name)) : 0;
}

int whiteout_create(struct fence *f, int dirfd, const char *name)
{
    char temp[32];

    snprintf(temp, sizeof(temp), "w%" PRIu64, atomic_fetch_add(&f->temp_counter, 1));
    return whiteout_create_by(f->work_fd, temp, dirfd, name);
}

int whiteout_create_by(int work_fd, const char *temp, int dirfd, const char *name)
{
    char marker[NAME_MAX + 1];

    whiteout_name(name, marker);
    if (is_long(name))
        return create_hashed(work_fd, temp, dirfd, marker, name);
    if (mknodat(dirfd, marker, S_IFREG | 0600, 0) < 0 && errno != EEXIST)
        return -errno;
    return 0;
}

bool whiteout_exists(int dirfd, const char *name)
{
    char marker[NAME_MAX + 1];
    struct stat st;

    whiteout_name(name, marker);
    return fstatat(dirfd, marker, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int whiteout_remove(int dirfd, const char *name)
{
    char marker[NAME_MAX + 1];

    whiteout_name(name, marker);
    return unlinkat(dirfd, marker, 0) < 0 && errno != ENOENT ? -errno : 0;
}

int whiteout_make_opaque(int dirfd)
{
    return mknodat(dirfd, WHITEOUT_OPAQUE, S_IFREG | 0600, 0) < 0 && errno != EEXIST ? -errno : 0;
}

bool whiteout_is_opaque(int dirfd)
{
    return faccessat(dirfd, WHITEOUT_OPAQUE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}
