#include "supervisor/script.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"

/* Up to PIPE_BUF bytes are written at once or not at all; a line by itself is a packet. */
static int write_line(const struct script *script, const char *line, size_t len)
{
    ssize_t n;

    do {
        n = write(script->fd, line, len);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n == (ssize_t) len ? 0 : -EIO;
}

static int write_unsaid(struct script *script)
{
    struct buf *unsaid = &script->unsaid;

    while (unsaid->len > 0) {
        size_t len = (size_t) ((char *) memchr(unsaid->data, '\n', unsaid->len) - unsaid->data) + 1;
        int r = write_line(script, unsaid->data, len);

        if (r < 0)
            return r;
        unsaid->len -= len;
        memmove(unsaid->data, unsaid->data + len, unsaid->len + 1);
    }
    return 0;
}

/* Out of the poll set as soon as nothing waits: a reader that has gone would be reported again and again. */
static void on_writable(uint32_t events, void *cookie)
{
    struct script *script = cookie;
    int r = write_unsaid(script);

    (void) events;
    if (r == -EAGAIN)
        return;
    buf_clear(&script->unsaid);
    watch_stop(&script->watch);
}

int script_open(struct script *script, struct reactor *reactor, bool packets, int *ret_read_fd)
{
    int pair[2];
    int r;

    *script = SCRIPT_NONE;
    if (pipe2(pair, O_CLOEXEC | (packets ? O_DIRECT : 0)) < 0)
        return -errno;
    autofd int theirs = pair[0], ours = pair[1];
    r = fd_set_nonblock(ours, true);
    if (r < 0)
        return r;
    *script = (struct script){ .fd = steal_fd(&ours), .reactor = reactor };
    *ret_read_fd = steal_fd(&theirs);
    return 0;
}

void script_close(struct script *script)
{
    watch_stop(&script->watch);
    buf_done(&script->unsaid);
    if (script->fd >= 0)
        close(script->fd);
    *script = SCRIPT_NONE;
}

int script_say(struct script *script, const char *line)
{
    size_t len = strlen(line);
    int r = script->unsaid.len > 0 ? -EAGAIN : write_line(script, line, len);

    assert(len > 0 && len <= PIPE_BUF && line[len - 1] == '\n');
    if (r != -EAGAIN)
        return r;
    buf_add(&script->unsaid, line, len);
    return script->watch.reactor ? 0 : watch_start(&script->watch, script->reactor, script->fd, EPOLLOUT, on_writable, script);
}

bool script_is_read(const struct script *script)
{
    int left = 0;

    return script->unsaid.len == 0 && ioctl(script->fd, FIONREAD, &left) == 0 && left == 0;
}
