#include "supervisor/shell_stdin.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"

/* Up to PIPE_BUF bytes are written atomically. With O_DIRECT each line is a packet. */
static int write_line(const struct shell_stdin *shell_stdin, const char *line, size_t len)
{
    ssize_t n;

    do {
        n = write(shell_stdin->fd, line, len);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n == (ssize_t) len ? 0 : -EIO;
}

static int write_unwritten(struct shell_stdin *shell_stdin)
{
    struct buf *unwritten = &shell_stdin->unwritten;

    while (unwritten->len > 0) {
        size_t len = (size_t) ((char *) memchr(unwritten->data, '\n', unwritten->len) - unwritten->data) + 1;
        int r = write_line(shell_stdin, unwritten->data, len);

        if (r < 0)
            return r;
        unwritten->len -= len;
        memmove(unwritten->data, unwritten->data + len, unwritten->len + 1);
    }
    return 0;
}

/* Leaves the poll set as soon as nothing is queued, because epoll would report a closed reader again and again. */
static void on_writable(uint32_t events, void *cookie)
{
    struct shell_stdin *shell_stdin = cookie;
    int r = write_unwritten(shell_stdin);

    (void) events;
    if (r == -EAGAIN)
        return;
    buf_clear(&shell_stdin->unwritten);
    watch_stop(&shell_stdin->watch);
}

int shell_stdin_open(struct shell_stdin *shell_stdin, struct reactor *reactor, bool packets, int *ret_read_fd)
{
    int pair[2];
    int r;

    *shell_stdin = SHELL_STDIN_NONE;
    if (pipe2(pair, O_CLOEXEC | (packets ? O_DIRECT : 0)) < 0)
        return -errno;
    autofd int theirs = pair[0], ours = pair[1];
    r = fd_set_nonblock(ours, true);
    if (r < 0)
        return r;
    *shell_stdin = (struct shell_stdin){ .fd = steal_fd(&ours), .reactor = reactor };
    *ret_read_fd = steal_fd(&theirs);
    return 0;
}

void shell_stdin_close(struct shell_stdin *shell_stdin)
{
    watch_stop(&shell_stdin->watch);
    buf_done(&shell_stdin->unwritten);
    if (shell_stdin->fd >= 0)
        close(shell_stdin->fd);
    *shell_stdin = SHELL_STDIN_NONE;
}

int shell_stdin_write_line(struct shell_stdin *shell_stdin, const char *line)
{
    size_t len = strlen(line);
    int r = shell_stdin->unwritten.len > 0 ? -EAGAIN : write_line(shell_stdin, line, len);

    assert(len > 0 && len <= PIPE_BUF && line[len - 1] == '\n');
    if (r != -EAGAIN)
        return r;
    buf_add(&shell_stdin->unwritten, line, len);
    return shell_stdin->watch.reactor
               ? 0
               : watch_start(&shell_stdin->watch, shell_stdin->reactor, shell_stdin->fd, EPOLLOUT, on_writable, shell_stdin);
}

bool shell_stdin_is_drained(const struct shell_stdin *shell_stdin)
{
    int left = 0;

    return shell_stdin->unwritten.len == 0 && ioctl(shell_stdin->fd, FIONREAD, &left) == 0 && left == 0;
}
