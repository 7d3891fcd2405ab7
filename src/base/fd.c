#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/mem.h"

#define AT_POSITION ((off_t) -1) /* use the descriptor's own offset and advance it */

static ssize_t read_from(int fd, void *bytes, size_t len, off_t offset)
{
    size_t done = 0;

    while (done < len) {
        char *at = (char *) bytes + done;
        ssize_t n = offset == AT_POSITION ? read(fd, at, len - done) : pread(fd, at, len - done, offset + (off_t) done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t) n;
    }
    return (ssize_t) done;
}

static int write_to(int fd, const void *bytes, size_t len, off_t offset)
{
    size_t done = 0;

    while (done < len) {
        const char *at = (const char *) bytes + done;
        ssize_t n = offset == AT_POSITION ? write(fd, at, len - done) : pwrite(fd, at, len - done, offset + (off_t) done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -ENOSPC; /* a retry would loop for ever */
        done += (size_t) n;
    }
    return 0;
}

ssize_t fd_read_full(int fd, void *bytes, size_t len)
{
    return read_from(fd, bytes, len, AT_POSITION);
}

ssize_t fd_pread_full(int fd, void *bytes, size_t len, off_t offset)
{
    return offset < 0 ? -EINVAL : read_from(fd, bytes, len, offset);
}

int fd_write_full(int fd, const void *bytes, size_t len)
{
    return write_to(fd, bytes, len, AT_POSITION);
}

int fd_pwrite_full(int fd, const void *bytes, size_t len, off_t offset)
{
    return offset < 0 ? -EINVAL : write_to(fd, bytes, len, offset);
}

int fd_read_all(int fd, size_t max, struct buf *out)
{
    char chunk[16384];
    size_t total = 0;

    for (;;) {
        /* Reading one byte more than allowed tells a file of exactly `max` bytes from a larger one. */
        size_t left = max - total, want = left < sizeof(chunk) ? left + 1 : sizeof(chunk);
        ssize_t n = fd_read_full(fd, chunk, want);

        if (n < 0)
            return (int) n;
        if ((size_t) n > left) {
            buf_add(out, chunk, left);
            return -EFBIG;
        }
        buf_add(out, chunk, (size_t) n);
        total += (size_t) n;
        if ((size_t) n < want)
            return 0;
    }
}

int fd_memory_file(const char *name, const void *bytes, size_t len)
{
    autofd int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r = fd < 0 ? -errno : fd_pwrite_full(fd, bytes, len, 0);

    return r < 0 ? r : steal_fd(&fd);
}

int fd_set_nonblock(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return -errno;
    flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

int fd_cloexec(int fd, bool on)
{
    return fcntl(fd, F_SETFD, on ? FD_CLOEXEC : 0) < 0 ? -errno : 0;
}

int fd_move_above(int fd, int lowest)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, lowest);

    return moved < 0 ? -errno : moved;
}

/* The entries that getdents64 returns. glibc declares them only for its own wrapper. */
struct fd_dirent {
    uint64_t ino;
    int64_t off;
    unsigned short reclen;
    unsigned char type;
    char name[];
};

/* Returns the descriptor that an entry of /proc/self/fd names, or -1 for "." and "..". */
static int fd_of_name(const char *name)
{
    int fd = 0;

    if (*name < '0' || *name > '9')
        return -1;
    for (; *name >= '0' && *name <= '9'; name++)
        fd = fd * 10 + (*name - '0');
    return fd;
}

/* Closes the descriptors that one batch of entries names and returns their number. */
static int close_batch(const char *batch, long len, int self, unsigned first, unsigned last)
{
    int closed = 0;

    for (long at = 0; at < len;) {
        const struct fd_dirent *entry = (const struct fd_dirent *) (batch + at);
        int fd = fd_of_name(entry->name);

        if (fd >= 0 && fd != self && (unsigned) fd >= first && (unsigned) fd <= last) {
            close(fd);
            closed++;
        }
        at += entry->reclen;
    }
    return closed;
}

/* For kernels before 5.9 and for seccomp filters that predate close_range(). A raw system call, because opendir() allocates: a
 * forked child of a threaded process may find malloc's lock taken for ever. */
static int close_listed(unsigned first, unsigned last)
{
    int self = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _Alignas(struct fd_dirent) char batch[2048];
    int closed;
    long n;

    if (self < 0)
        return -errno;
    /* Closing while reading may make the listing skip entries, so passes repeat until one finds nothing to close. */
    do {
        closed = 0;
        lseek(self, 0, SEEK_SET);
        while ((n = syscall(SYS_getdents64, self, batch, sizeof(batch))) > 0)
            closed += close_batch(batch, n, self, first, last);
    } while (n >= 0 && closed > 0);
    if (n < 0)
        n = -errno;
    close(self);
    return (int) n;
}

/* For systems without /proc. Counts up to the hard limit: a process may lower its soft limit below an open descriptor, and
 * rarely its hard one. */
static int close_counted(unsigned first, unsigned last)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return -errno;
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max <= last)
        last = (unsigned) limit.rlim_max;
    for (unsigned fd = first; fd <= last && fd < INT_MAX; fd++)
        close((int) fd);
    return 0;
}

static int close_between(unsigned first, unsigned last)
{
    int r;

    if (first > last)
        return 0;
    if (syscall(SYS_close_range, first, last, 0) == 0)
        return 0;
    r = close_listed(first, last);
    return r < 0 ? close_counted(first, last) : 0;
}

int fd_close_above(int first)
{
    return close_between((unsigned) first, UINT_MAX);
}

int fd_close_all_but(const int *keep, size_t count)
{
    unsigned first = 0;

    for (size_t i = 0; i < count; i++) {
        int r = keep[i] > 0 ? close_between(first, (unsigned) keep[i] - 1) : 0;

        if (r < 0)
            return r;
        first = (unsigned) keep[i] + 1;
    }
    return close_between(first, UINT_MAX);
}
