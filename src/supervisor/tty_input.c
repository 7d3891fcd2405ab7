#include "supervisor/tty_input.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "supervisor/client.h"

int tty_input_open(struct tty_input *tty_input, struct reactor *reactor, int pty_fd)
{
    int fd = fcntl(pty_fd, F_DUPFD_CLOEXEC, 3);
    int r = fd < 0 ? -errno : fd_set_nonblock(fd, true);

    *tty_input = TTY_INPUT_NONE;
    if (r < 0) {
        cleanup_fd(&fd);
        return r;
    }
    tty_input->fd = fd;
    tty_input->reactor = reactor;
    return 0;
}

static void tty_input_acknowledge(struct tty_input *tty_input)
{
    struct client *client = steal_ptr(&tty_input->client);

    watch_stop(&tty_input->watch);
    buf_done(&tty_input->bytes);
    tty_input->at = 0;
    if (client)
        client_ok(client, tty_input->tag);
}

void tty_input_close(struct tty_input *tty_input)
{
    watch_stop(&tty_input->watch);
    buf_done(&tty_input->bytes);
    cleanup_fd(&tty_input->fd);
    *tty_input = TTY_INPUT_NONE;
}

/* Returns true if nothing is left to write: the terminal has taken everything, or nobody has it open. */
static bool write_some(struct tty_input *tty_input)
{
    while (tty_input->at < tty_input->bytes.len) {
        ssize_t n = write(tty_input->fd, tty_input->bytes.data + tty_input->at, tty_input->bytes.len - tty_input->at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n < 0)
            return true;
        tty_input->at += (size_t) n;
    }
    return true;
}

static void on_writable(uint32_t events, void *cookie)
{
    struct tty_input *tty_input = cookie;

    /* epoll reports a hang-up for ever if nobody has the terminal open. */
    if (write_some(tty_input) || events & (EPOLLHUP | EPOLLERR))
        tty_input_acknowledge(tty_input);
}

int tty_input_write(struct tty_input *tty_input, struct client *client, uint64_t tag, const void *bytes, size_t len)
{
    if (tty_input->bytes.len > 0 && tty_input->client)
        return -EBUSY;
    tty_input->client = client;
    tty_input->tag = tag;
    buf_add(&tty_input->bytes, bytes, len);
    if (tty_input->fd < 0 || write_some(tty_input) ||
        (!tty_input->watch.reactor &&
         watch_start(&tty_input->watch, tty_input->reactor, tty_input->fd, EPOLLOUT, on_writable, tty_input) < 0))
        tty_input_acknowledge(tty_input);
    return 0;
}

void tty_input_lose_client(struct tty_input *tty_input)
{
    tty_input->client = NULL;
}
