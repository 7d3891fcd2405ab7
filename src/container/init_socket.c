#include "container/init_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "wire/init_proto.h"

/* Binds through the directory's descriptor, because the path may be too long for a socket address. The socket is open to all
 * users, because the sandbox's user must connect, but only the container can reach it. */
static int bind_in(int dir_fd, int fd)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" INIT_SOCKET_NAME, dir_fd);
    if (unlinkat(dir_fd, INIT_SOCKET_NAME, 0) < 0 && errno != ENOENT)
        return -errno;
    if (bind(fd, (struct sockaddr *) &address, sizeof(address)) < 0 || fchmodat(dir_fd, INIT_SOCKET_NAME, 0666, 0) < 0 ||
        listen(fd, 1) < 0)
        return -errno;
    return 0;
}

int init_socket_open(int dir_fd, int *ret_fd, struct err *err)
{
    autofd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r = fd < 0 ? -errno : bind_in(dir_fd, fd);

    if (r < 0)
        return err_errno(err, r, "making a socket for init");
    *ret_fd = steal_fd(&fd);
    return 0;
}

int init_socket_accept(int fd, uid_t uid, int *ret_fd, pid_t *ret_pid, int *ret_pidfd, struct err *err)
{
    autofd int guest = accept4(fd, NULL, NULL, SOCK_CLOEXEC), pidfd = -1;
    struct ucred who = { 0 };
    socklen_t len = sizeof(who);

    if (guest < 0 || getsockopt(guest, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
        return err_errno(err, -errno, "accepting init");
    if (who.pid <= 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -ESRCH,
                       "the Docker engine runs its containers where their processes cannot be seen from here");
    if (who.uid != uid)
        return err_set(
            err, ERR_FAILED_PRECONDITION, -EPERM,
            "the Docker engine gave the container the user %u instead of %u; an engine that runs without root cannot be "
            "used",
            who.uid, uid);
    pidfd = (int) syscall(SYS_pidfd_open, who.pid, 0);
    if (pidfd < 0)
        return err_errno(err, -errno, "watching init");
    /* The connection is still open, so the pid was still init's when the pidfd was opened. */
    struct pollfd still = { .fd = guest, .events = 0 };
    if (poll(&still, 1, 0) > 0)
        return err_set(err, ERR_UNAVAILABLE, -ECONNRESET, "init ended before it was answered");
    *ret_fd = steal_fd(&guest);
    *ret_pid = who.pid;
    *ret_pidfd = steal_fd(&pidfd);
    return 0;
}

int init_socket_pass_fd(int fd, int passed_fd, struct err *err)
{
    const struct frame frame = { .type = INIT_SOCKET_FRAME, .fd_count = 1, .fds = { passed_fd } };
    int r = frame_send(fd, &frame, FRAME_WAIT);

    return r < 0 ? err_errno(err, r, "handing init its socket") : 0;
}
