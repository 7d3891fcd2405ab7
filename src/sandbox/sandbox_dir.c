#include "sandbox/sandbox_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/directory.h"
#include "base/path.h"
#include "sandbox/host_mount.h"

#define LOCK_TRIES 10 /* 2 ms apart */

int sandbox_dir_lock(int dir_fd, int *ret_fd)
{
    autofd int fd = path_open_beneath(dir_fd, "lock", O_RDWR | O_CREAT | O_NONBLOCK, 0600);

    if (fd < 0)
        return fd;
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (errno != EWOULDBLOCK || i == LOCK_TRIES)
            return errno == EWOULDBLOCK ? -EBUSY : -errno;
        nanosleep(&(struct timespec){ .tv_nsec = 2 * CLOCK_NS_PER_MS }, NULL);
    }
    *ret_fd = steal_fd(&fd);
    return 0;
}

static bool is_locked(int dir_fd, const char *relpath)
{
    autofd int fd = path_open_beneath(dir_fd, relpath, O_RDONLY | O_NONBLOCK, 0);

    /* What cannot be looked at counts as alive: the other mistake would remove a sandbox under its supervisor. */
    if (fd < 0)
        return fd != -ENOENT;
    return flock(fd, LOCK_SH | LOCK_NB) < 0;
}

/* Directories that were made for a rule are in there as well: they keep a sandbox longer than it would have to be. */
bool sandbox_dir_has_changes(int dir_fd)
{
    autodirectory dir = directory_take(path_open_beneath(dir_fd, "delta/data", O_RDONLY | O_DIRECTORY, 0));

    return dir ? directory_next(dir) != NULL : errno != ENOENT;
}

bool sandbox_dir_is_running(int dir_fd)
{
    return is_locked(dir_fd, "lock");
}

bool sandbox_dir_delta_is_locked(int dir_fd)
{
    return is_locked(dir_fd, "delta/meta/lock");
}

void sandbox_dir_unmount_leftover(int dir_fd)
{
    autofd int lock = -1;

    if (sandbox_dir_lock(dir_fd, &lock) == 0)
        host_mount_hide(dir_fd);
}
