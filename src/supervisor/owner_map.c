#include "supervisor/owner_map.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

#define LAST_ID 4294967294u /* the next number is (uid_t) -1 */

static void add_range(struct buf *map, uint64_t from, uint64_t to, uint64_t count)
{
    if (count > 0)
        buf_addf(map, "%lu %lu %lu\n", (unsigned long) from, (unsigned long) to, (unsigned long) count);
}

/* Maps all ids to themselves, except that these two are exchanged. */
static void make_map(struct buf *map, uint64_t a, uint64_t b)
{
    uint64_t low = a < b ? a : b, high = a < b ? b : a;

    add_range(map, 0, 0, low);
    if (low != high) {
        add_range(map, low, high, 1);
        add_range(map, low + 1, low + 1, high - low - 1);
        add_range(map, high, low, 1);
    } else {
        add_range(map, low, low, 1);
    }
    add_range(map, high + 1, high + 1, LAST_ID - high);
}

static int write_map(pid_t pid, const char *file, uint64_t a, uint64_t b)
{
    autodone(buf) struct buf map = BUF_EMPTY;
    char path[64];

    make_map(&map, a, b);
    snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, file);
    autofd int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd_write_full(fd, map.data, map.len);
}

int owner_map_new(struct owner on_disk, struct owner shown)
{
    char path[64];
    int r, fd = -1, status;
    /* A child that keeps the namespace alive until we have opened it. It shares nothing with us and does nothing, so our
     * threads do not matter. */
    pid_t pid = (pid_t) syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid < 0)
        return -errno;
    if (pid == 0) {
        syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        for (;;)
            syscall(SYS_pause);
    }
    r = write_map(pid, "uid_map", on_disk.uid, shown.uid);
    if (r == 0)
        r = write_map(pid, "gid_map", on_disk.gid, shown.gid);
    snprintf(path, sizeof(path), "/proc/%d/ns/user", (int) pid);
    if (r == 0 && (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        r = -errno;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return r < 0 ? r : fd;
}
