#include "supervisor/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

/* How often a drain reads: a pipe is not larger than this many chunks, so what was in it when we began is taken. */
#define DRAIN_ROUNDS 32

enum tap_read { TAP_MORE, TAP_EMPTY, TAP_FULL, TAP_END };

static enum tap_read read_once(struct tap *tap)
{
    static char chunk[TAP_CHUNK];
    ssize_t n = read(tap->fd, chunk, sizeof(chunk));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return TAP_EMPTY;
    if (n <= 0)
        return TAP_END;
    return tap->sink(chunk, (size_t) n, tap->cookie) ? TAP_MORE : TAP_FULL;
}

/* May call back into whoever owns the tap, which may close it or be freed with it: nothing is touched afterwards. */
static void settle(struct tap *tap, enum tap_read outcome)
{
    /* A paused tap leaves the poll set altogether: a hang-up would be reported again and again. */
    if (outcome == TAP_FULL)
        watch_stop(&tap->watch);
    if (outcome != TAP_END)
        return;
    tap_close(tap);
    tap->at_end(tap->cookie);
}

static void on_readable(uint32_t events, void *cookie)
{
    struct tap *tap = cookie;

    (void) events;
    settle(tap, read_once(tap));
}

int tap_adopt(struct tap *tap, struct reactor *reactor, tap_fn sink, void (*at_end)(void *), void *cookie, int fd)
{
    autofd int ours = fd;
    int r = fd_set_nonblock(ours, true);

    *tap = (struct tap){ .fd = -1, .reactor = reactor, .sink = sink, .at_end = at_end, .cookie = cookie };
    if (r == 0)
        r = watch_start(&tap->watch, reactor, ours, EPOLLIN, on_readable, tap);
    if (r < 0)
        return r;
    tap->fd = steal_fd(&ours);
    return 0;
}

int tap_open(struct tap *tap, struct reactor *reactor, tap_fn sink, void (*at_end)(void *), void *cookie, int *ret_write_fd)
{
    int pair[2];
    int r;

    *tap = TAP_NONE;
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    autofd int theirs = pair[1];
    r = tap_adopt(tap, reactor, sink, at_end, cookie, pair[0]);
    if (r < 0)
        return r;
    *ret_write_fd = steal_fd(&theirs);
    return 0;
}

void tap_close(struct tap *tap)
{
    watch_stop(&tap->watch);
    if (tap->fd >= 0)
        close(tap->fd);
    tap->fd = -1;
}

void tap_drain(struct tap *tap)
{
    enum tap_read outcome = TAP_MORE;

    if (tap->fd < 0 || !tap->watch.reactor)
        return;
    for (int i = 0; i < DRAIN_ROUNDS && outcome == TAP_MORE; i++)
        outcome = read_once(tap);
    settle(tap, outcome);
}

void tap_empty(struct tap *tap)
{
    enum tap_read outcome = TAP_MORE;

    for (int i = 0; i < DRAIN_ROUNDS && tap->fd >= 0 && (outcome == TAP_MORE || outcome == TAP_FULL); i++)
        outcome = read_once(tap);
    if (tap->fd >= 0)
        settle(tap, outcome == TAP_FULL ? TAP_MORE : outcome);
}

void tap_resume(struct tap *tap)
{
    if (tap_is_paused(tap))
        watch_start(&tap->watch, tap->reactor, tap->fd, EPOLLIN, on_readable, tap);
}

bool tap_is_paused(const struct tap *tap)
{
    return tap->fd >= 0 && !tap->watch.reactor;
}
