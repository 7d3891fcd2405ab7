#include "supervisor/typing.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/client.h"

int typing_open(struct typing *typing, struct reactor *reactor, int pty_fd)
{
    int fd = fcntl(pty_fd, F_DUPFD_CLOEXEC, 3);
    int r = fd < 0 ? -errno : fd_set_nonblock(fd, true);

    *typing = TYPING_NONE;
    if (r < 0) {
        cleanup_fd(&fd);
        return r;
    }
    typing->fd = fd;
    typing->reactor = reactor;
    return 0;
}

static void acknowledge(struct typing *typing)
{
    struct client *client = steal_ptr(&typing->client);

    watch_stop(&typing->watch);
    buf_done(&typing->bytes);
    typing->at = 0;
    if (client)
        client_reply(client, &(struct ctl_reply){ .type = CTL_REPLY_OK, .tag = typing->tag }, -1);
}

void typing_close(struct typing *typing)
{
    watch_stop(&typing->watch);
    buf_done(&typing->bytes);
    cleanup_fd(&typing->fd);
    *typing = TYPING_NONE;
}

/* True when there is nothing left to write: all is taken, or nobody is there to take it. */
static bool write_some(struct typing *typing)
{
    while (typing->at < typing->bytes.len) {
        ssize_t n = write(typing->fd, typing->bytes.data + typing->at, typing->bytes.len - typing->at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n < 0)
            return true;
        typing->at += (size_t) n;
    }
    return true;
}

static void on_writable(uint32_t events, void *cookie)
{
    struct typing *typing = cookie;

    /* A terminal that nobody has open any more reports a hang-up for ever. */
    if (write_some(typing) || events & (EPOLLHUP | EPOLLERR))
        acknowledge(typing);
}

int typing_take(struct typing *typing, struct client *client, uint64_t tag, const void *bytes, size_t len)
{
    if (typing->bytes.len > 0 && typing->client)
        return -EBUSY;
    typing->client = client;
    typing->tag = tag;
    buf_add(&typing->bytes, bytes, len);
    if (typing->fd < 0 || write_some(typing) ||
        (!typing->watch.reactor && watch_start(&typing->watch, typing->reactor, typing->fd, EPOLLOUT, on_writable, typing) < 0))
        acknowledge(typing);
    return 0;
}

void typing_lose_client(struct typing *typing)
{
    typing->client = NULL;
}
