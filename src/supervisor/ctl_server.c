#include "supervisor/ctl_server.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "supervisor/client.h"
#include "supervisor/sandbox.h"

/* The directory is closed to other users already. This check holds even if its mode was changed. */
static bool is_allowed_peer(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

static void on_connection(uint32_t events, void *cookie)
{
    struct sandbox *sandbox = cookie;
    autofd int fd = accept4(sandbox->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct client *client;

    (void) events;
    if (fd < 0)
        return;
    if (sandbox->client_count >= CLIENTS_MAX || !is_allowed_peer(fd)) {
        log_warn("a connection was refused", LOG_UINT("clients", sandbox->client_count));
        return;
    }
    if (client_new(sandbox, fd, &client) == 0)
        steal_fd(&fd);
}

/* Binds through the directory's descriptor, because the path may be too long for a socket address. */
static int bind_in(int dir_fd, int fd)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/ctl", dir_fd);
    if (unlinkat(dir_fd, "ctl", 0) < 0 && errno != ENOENT)
        return -errno;
    if (bind(fd, (struct sockaddr *) &address, sizeof(address)) < 0 || fchmodat(dir_fd, "ctl", 0600, 0) < 0 ||
        listen(fd, SOMAXCONN) < 0)
        return -errno;
    return 0;
}

int ctl_server_open(struct sandbox *sandbox, struct err *err)
{
    autofd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r = fd < 0 ? -errno : bind_in(sandbox->dir_fd, fd);

    if (r == 0)
        r = watch_start(&sandbox->listen_watch, &sandbox->reactor, fd, EPOLLIN, on_connection, sandbox);
    if (r < 0)
        return err_errno(err, r, "opening the control socket");
    sandbox->listen_fd = steal_fd(&fd);
    return 0;
}

void ctl_server_close(struct sandbox *sandbox)
{
    if (sandbox->listen_fd < 0)
        return;
    watch_stop(&sandbox->listen_watch);
    unlinkat(sandbox->dir_fd, "ctl", 0);
    close(sandbox->listen_fd);
    sandbox->listen_fd = -1;
}
