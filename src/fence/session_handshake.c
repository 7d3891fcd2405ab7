/* The INIT handshake with the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fence/reply.h"
#include "fence/session_int.h"

#define HANDSHAKE_MS 10000

static ssize_t never_read(int fd, void *bytes, size_t size, void *userdata)
{
    (void) fd;
    (void) bytes;
    (void) size;
    (void) userdata;
    errno = EAGAIN;
    return -1;
}

/* struct fuse_init_out on the wire. Older headers call what follows flags2 `unused`; newer ones have names for it, and their
 * `unused` begins later. Spelt out here, so that the headers do not matter. */
struct init_out {
    uint32_t major, minor;
    uint32_t max_readahead;
    uint32_t flags;
    uint16_t max_background, congestion_threshold;
    uint32_t max_write;
    uint32_t time_gran;
    uint16_t max_pages, map_alignment;
    uint32_t flags2;
    uint32_t max_stack_depth; /* 7.40, Linux 6.9 */
    uint16_t later[12];       /* request_timeout (7.43) and later fields */
};

_Static_assert(sizeof(struct init_out) == 64 && sizeof(struct init_out) == sizeof(struct fuse_init_out) &&
                   offsetof(struct init_out, flags) == offsetof(struct fuse_init_out, flags) &&
                   offsetof(struct init_out, flags2) == offsetof(struct fuse_init_out, flags2) &&
                   offsetof(struct init_out, max_stack_depth) == 36,
               "struct init_out is not what the kernel reads");

/* Works with any libfuse: see decision 39. Has no effect if libfuse has already asked for it. */
static void request_passthrough(struct session *s, struct init_out *out)
{
    enum { PASSTHROUGH_IN_FLAGS2 = 1 << 5 }; /* FUSE_PASSTHROUGH, bit 37 */

    if (s->f->data_path != FENCE_DATA_PASSTHROUGH || !(s->offered2 & PASSTHROUGH_IN_FLAGS2))
        return;
    out->flags |= FUSE_INIT_EXT;
    out->flags2 |= PASSTHROUGH_IN_FLAGS2;
    out->max_stack_depth = 1; /* the base itself must not be on a stacked file system */
    s->has_passthrough = true;
}

static void amend_init(struct session *s, struct iovec *iov, int count)
{
    const struct fuse_out_header *head = iov[0].iov_base;
    uint64_t unique = atomic_load_explicit(&s->init_unique, memory_order_relaxed);

    if (!unique || count < 2 || head->unique != unique || head->error)
        return;
    if (iov[1].iov_len >= sizeof(struct init_out)) {
        struct init_out *out = iov[1].iov_base;
        /* libfuse 3.14 does not know this flag. With it the kernel does not ask for security.capability before every write; in
         * here there are no capabilities and no suid or sgid bits to be dropped. */
        out->flags |= FUSE_HANDLE_KILLPRIV_V2;
        request_passthrough(s, out);
    }
    atomic_store_explicit(&s->init_unique, 0, memory_order_relaxed);
}

static ssize_t send_reply(int fd, struct iovec *iov, int count, void *userdata)
{
    struct fence *f = userdata;
    struct session *s = f->session;
    amend_init(s, iov, count);
    return writev(fd, iov, count);
}

/* The kernel's first request is INIT. It is answered here, so that its result is known before the first client comes. */
static int answer_init(struct session *s)
{
    struct pollfd fds = { .fd = s->fd, .events = POLLIN };
    autofree char *bytes = malloc(SESSION_BUFFER_BYTES);
    struct fuse_buf buf = { .mem = bytes };
    const struct fuse_in_header *head = (const void *) bytes;

    if (!bytes || poll(&fds, 1, HANDSHAKE_MS) <= 0)
        return -ETIMEDOUT;
    ssize_t n = read(s->fd, bytes, SESSION_BUFFER_BYTES);
    if (n < (ssize_t) (sizeof(*head) + sizeof(struct fuse_init_in)) || head->opcode != FUSE_INIT)
        return -EPROTO;
    s->offered2 = ((const struct fuse_init_in *) (bytes + sizeof(*head)))->flags2;
    atomic_store(&s->init_unique, head->unique);
    buf.size = (size_t) n;
    fuse_session_process_buf(s->fuse, &buf);
    return 0;
}

int session_attach(struct session *s, int take_fd)
{
    static const struct fuse_custom_io io = { .read = never_read, .writev = send_reply };
    int r;

    s->fd = take_fd; /* libfuse owns it from here on */
    if (fcntl(s->fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    r = fuse_session_custom_io(s->fuse, &io, s->fd);
    return r < 0 ? r : answer_init(s);
}
