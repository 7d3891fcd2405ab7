#include "wire/frame.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/cleanup.h"
#include "wire/reader.h"
#include "wire/writer.h"

/*
 * The header, little endian:
 *
 *      0  "AFW"        magic
 *      3  u8           version
 *      4  u16          type
 *      6  u16          number of descriptors
 *      8  u64          id
 *     16  u32          length of the payload, which follows and ends the packet
 *
 * The packet itself also gives the payload's length and the number of descriptors. Both must agree with the header. This
 * detects packets that are not frames, and distinguishes a lost descriptor (EMFILE here, or the socket of another process on
 * the way) from one that was never sent.
 */
#define HEADER_LEN 20
#define MAGIC_LEN 3

static const char magic[MAGIC_LEN] = { 'A', 'F', 'W' };

/* A buffer for the descriptors with the alignment that the kernel needs. */
union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(FRAME_FDS_MAX * sizeof(int))];
};

static void write_header(const struct frame *frame, uint8_t header[HEADER_LEN])
{
    struct writer w;

    writer_init(&w, header, HEADER_LEN);
    writer_bytes(&w, magic, MAGIC_LEN);
    writer_u8(&w, FRAME_VERSION);
    writer_u16(&w, frame->type);
    writer_u16(&w, (uint16_t) frame->fd_count);
    writer_u64(&w, frame->id);
    writer_u32(&w, (uint32_t) frame->len);
}

static void attach_fds(const struct frame *frame, struct msghdr *msg, union control *control)
{
    size_t len = frame->fd_count * sizeof(int);
    struct cmsghdr *cmsg;

    if (frame->fd_count == 0)
        return;
    memset(control, 0, sizeof(*control));
    msg->msg_control = control->bytes;
    msg->msg_controllen = (__typeof__(msg->msg_controllen)) CMSG_SPACE(len); /* musl and glibc differ in the type */
    cmsg = CMSG_FIRSTHDR(msg);
    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = (__typeof__(cmsg->cmsg_len)) CMSG_LEN(len);
    memcpy(CMSG_DATA(cmsg), frame->fds, len);
}

/* Maps all errors for a missing peer to one. */
static int socket_error(int error)
{
    return error == EPIPE || error == ENOTCONN ? -ECONNRESET : -error;
}

int frame_send(int sock, const struct frame *frame, enum frame_wait wait)
{
    uint8_t header[HEADER_LEN];
    union control control;
    struct iovec iov[2] = { { header, HEADER_LEN }, { (void *) frame->payload, frame->len } };
    struct msghdr msg = { .msg_iov = iov, .msg_iovlen = frame->len > 0 ? 2 : 1 };
    int flags = MSG_NOSIGNAL | (wait == FRAME_NOWAIT ? MSG_DONTWAIT : 0);
    ssize_t n;

    if (frame->len > FRAME_PAYLOAD_MAX || frame->fd_count > FRAME_FDS_MAX)
        return -EMSGSIZE;
    write_header(frame, header);
    attach_fds(frame, &msg, &control);
    do
        n = sendmsg(sock, &msg, flags);
    while (n < 0 && errno == EINTR);
    return n < 0 ? socket_error(errno) : 0;
}

/* Records every received descriptor; from here on we must close them. All of them fit, because the kernel installs only as many
 * as the control buffer holds. */
static void collect_fds(struct msghdr *msg, struct frame *frame)
{
    frame->fd_count = 0;
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
        size_t count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < count && frame->fd_count < FRAME_FDS_MAX; i++)
            memcpy(&frame->fds[frame->fd_count++], CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
    }
}

static int read_header(const uint8_t header[HEADER_LEN], size_t packet_len, struct frame *frame)
{
    struct reader r;
    const void *found;
    uint8_t version;
    size_t fd_count, len;

    reader_init(&r, header, packet_len < HEADER_LEN ? packet_len : HEADER_LEN);
    found = reader_bytes(&r, MAGIC_LEN);
    version = reader_u8(&r);
    frame->type = reader_u16(&r);
    fd_count = reader_u16(&r);
    frame->id = reader_u64(&r);
    len = reader_u32(&r);
    if (reader_end(&r) < 0 || memcmp(found, magic, MAGIC_LEN) != 0 || version != FRAME_VERSION)
        return -EPROTO;
    if (fd_count != frame->fd_count || len != packet_len - HEADER_LEN)
        return -EPROTO;
    frame->len = len;
    return 0;
}

static ssize_t receive_packet(int sock, struct msghdr *msg, enum frame_wait wait)
{
    int flags = MSG_CMSG_CLOEXEC | (wait == FRAME_NOWAIT ? MSG_DONTWAIT : 0);
    ssize_t n;

    do
        n = recvmsg(sock, msg, flags);
    while (n < 0 && errno == EINTR);
    return n < 0 ? socket_error(errno) : n;
}

static int check_packet(const struct msghdr *msg, const uint8_t header[HEADER_LEN], size_t packet_len, struct frame *frame)
{
    if (packet_len == 0)
        return -ECONNRESET;
    if (msg->msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        return -EMSGSIZE;
    return read_header(header, packet_len, frame);
}

int frame_receive(int sock, void *buf, size_t cap, enum frame_wait wait, struct frame *ret)
{
    uint8_t header[HEADER_LEN];
    union control control;
    struct iovec iov[2] = { { header, HEADER_LEN }, { buf, cap < FRAME_PAYLOAD_MAX ? cap : FRAME_PAYLOAD_MAX } };
    struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2, .msg_control = control.bytes, .msg_controllen = sizeof(control) };
    struct frame frame = { .payload = buf };
    ssize_t n;
    int r;

    n = receive_packet(sock, &msg, wait);
    if (n < 0)
        return (int) n;
    collect_fds(&msg, &frame);
    r = check_packet(&msg, header, (size_t) n, &frame);
    if (r < 0) {
        frame_close_fds(&frame);
        return r;
    }
    *ret = frame;
    return 0;
}

int frame_take_fd(struct frame *frame, size_t index)
{
    return index < frame->fd_count ? steal_fd(&frame->fds[index]) : -1;
}

void frame_close_fds(struct frame *frame)
{
    for (size_t i = 0; i < frame->fd_count; i++) {
        cleanup_fd(&frame->fds[i]);
        frame->fds[i] = -1;
    }
    frame->fd_count = 0;
}
