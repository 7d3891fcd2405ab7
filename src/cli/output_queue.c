#include "cli/output_queue.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

void output_queue_add(struct output_queue *outflow, int fd, const void *bytes, size_t len)
{
    if (len == 0)
        return;
    if (outflow->count == 0 || outflow->pieces[outflow->count - 1].fd != fd) {
        vec_room(&outflow->pieces, &outflow->cap, outflow->count);
        outflow->pieces[outflow->count++] = (struct output_queue_piece){ .fd = fd };
    }
    buf_add(&outflow->pieces[outflow->count - 1].bytes, bytes, len);
}

static void clear(struct output_queue *outflow)
{
    for (size_t i = 0; i < outflow->count; i++)
        buf_done(&outflow->pieces[i].bytes);
    outflow->count = outflow->at = 0;
}

void output_queue_done(struct output_queue *outflow)
{
    clear(outflow);
    free(outflow->pieces);
    *outflow = (struct output_queue){ 0 };
}

int output_queue_fd(const struct output_queue *outflow)
{
    return outflow->count > 0 ? outflow->pieces[0].fd : -1;
}

/* poll(2) promises room for PIPE_BUF bytes in a pipe. A larger write could block. */
static size_t piece_max(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? SSIZE_MAX : PIPE_BUF;
}

static void drop_first(struct output_queue *outflow)
{
    buf_done(&outflow->pieces[0].bytes);
    memmove(outflow->pieces, outflow->pieces + 1, --outflow->count * sizeof(*outflow->pieces));
    outflow->at = 0;
}

int output_queue_write(struct output_queue *outflow)
{
    struct output_queue_piece *piece = outflow->pieces;
    size_t most, left;
    ssize_t n;

    if (outflow->count == 0)
        return 0;
    most = piece_max(piece->fd);
    left = piece->bytes.len - outflow->at;
    n = write(piece->fd, piece->bytes.data + outflow->at, left < most ? left : most);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : -errno;
    outflow->at += (size_t) n;
    if (outflow->at == piece->bytes.len)
        drop_first(outflow);
    return 0;
}
