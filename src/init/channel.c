#include "init/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "base/cleanup.h"

static int socket_option(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? -errno : value;
}

int channel_inherit(int fd)
{
    int domain = socket_option(fd, SO_DOMAIN), type = socket_option(fd, SO_TYPE), flags;

    if (domain < 0)
        return domain;
    if (domain != AF_UNIX || type != SOCK_SEQPACKET)
        return -EPROTOTYPE;
    /* Blocking for the reapers, which wait until there is room; the loop asks for FRAME_NOWAIT itself. */
    flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return -errno;
    return fd;
}

int channel_fetch(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t len = strlen(path);
    struct frame frame;
    autofd int fd = -1;
    int r;

    if (len >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, len);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *) &address, sizeof(address)) < 0)
        return -errno;
    r = frame_receive(fd, NULL, 0, FRAME_WAIT, &frame);
    if (r < 0)
        return r;
    if (frame.type == INIT_SOCKET_FRAME && frame.fd_count == 1)
        return channel_inherit(frame_take_fd(&frame, 0));
    frame_close_fds(&frame);
    return -EPROTO;
}

int channel_report(int channel, const struct init_report *report, int fd, enum frame_wait wait)
{
    char buf[INIT_PROTO_SMALL_MAX];
    struct frame frame;
    int r = init_report_encode(report, buf, sizeof(buf), &frame);

    if (r < 0)
        return r;
    if (fd >= 0)
        frame.fds[frame.fd_count++] = fd;
    return frame_send(channel, &frame, wait);
}
