#include "supervisor/pipe_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

/* How often a drain reads. A pipe holds no more than this many chunks, so a drain reads everything that was in it at the
 * start. */
#define DRAIN_ROUNDS 32

enum pipe_reader_read { PIPE_READER_MORE, PIPE_READER_EMPTY, PIPE_READER_FULL, PIPE_READER_END };

static enum pipe_reader_read read_once(struct pipe_reader *reader)
{
    static char chunk[PIPE_READER_CHUNK];
    ssize_t n = read(reader->fd, chunk, sizeof(chunk));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return PIPE_READER_EMPTY;
    if (n <= 0)
        return PIPE_READER_END;
    return reader->sink(chunk, (size_t) n, reader->cookie) ? PIPE_READER_MORE : PIPE_READER_FULL;
}

/* May call the reader's owner, which may close or free the reader: the reader must not be used afterwards. */
static void pipe_reader_on_outcome(struct pipe_reader *reader, enum pipe_reader_read outcome)
{
    /* A paused reader leaves the poll set, because epoll would report a hang-up again and again. */
    if (outcome == PIPE_READER_FULL)
        watch_stop(&reader->watch);
    if (outcome != PIPE_READER_END)
        return;
    pipe_reader_close(reader);
    reader->at_end(reader->cookie);
}

static void on_readable(uint32_t events, void *cookie)
{
    struct pipe_reader *reader = cookie;

    (void) events;
    pipe_reader_on_outcome(reader, read_once(reader));
}

int pipe_reader_adopt(struct pipe_reader *reader, struct reactor *reactor, pipe_reader_fn sink, void (*at_end)(void *),
                      void *cookie, int fd)
{
    autofd int ours = fd;
    int r = fd_set_nonblock(ours, true);

    *reader = (struct pipe_reader){ .fd = -1, .reactor = reactor, .sink = sink, .at_end = at_end, .cookie = cookie };
    if (r == 0)
        r = watch_start(&reader->watch, reactor, ours, EPOLLIN, on_readable, reader);
    if (r < 0)
        return r;
    reader->fd = steal_fd(&ours);
    return 0;
}

int pipe_reader_open(struct pipe_reader *reader, struct reactor *reactor, pipe_reader_fn sink, void (*at_end)(void *),
                     void *cookie, int *ret_write_fd)
{
    int pair[2];
    int r;

    *reader = PIPE_READER_NONE;
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    autofd int theirs = pair[1];
    r = pipe_reader_adopt(reader, reactor, sink, at_end, cookie, pair[0]);
    if (r < 0)
        return r;
    *ret_write_fd = steal_fd(&theirs);
    return 0;
}

void pipe_reader_close(struct pipe_reader *reader)
{
    watch_stop(&reader->watch);
    if (reader->fd >= 0)
        close(reader->fd);
    reader->fd = -1;
}

void pipe_reader_drain(struct pipe_reader *reader)
{
    enum pipe_reader_read outcome = PIPE_READER_MORE;

    if (reader->fd < 0 || !reader->watch.reactor)
        return;
    for (int i = 0; i < DRAIN_ROUNDS && outcome == PIPE_READER_MORE; i++)
        outcome = read_once(reader);
    pipe_reader_on_outcome(reader, outcome);
}

void pipe_reader_drain_all(struct pipe_reader *reader)
{
    enum pipe_reader_read outcome = PIPE_READER_MORE;

    for (int i = 0; i < DRAIN_ROUNDS && reader->fd >= 0 && (outcome == PIPE_READER_MORE || outcome == PIPE_READER_FULL); i++)
        outcome = read_once(reader);
    if (reader->fd >= 0)
        pipe_reader_on_outcome(reader, outcome == PIPE_READER_FULL ? PIPE_READER_MORE : outcome);
}

void pipe_reader_resume(struct pipe_reader *reader)
{
    if (pipe_reader_is_paused(reader))
        watch_start(&reader->watch, reader->reactor, reader->fd, EPOLLIN, on_readable, reader);
}

bool pipe_reader_is_paused(const struct pipe_reader *reader)
{
    return reader->fd >= 0 && !reader->watch.reactor;
}
