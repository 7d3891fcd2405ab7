/*
 * For targets that read packets of a stranger: the input is one packet, sent through a real socket with as many descriptors as
 * its header announces. Whatever it is, no descriptor stays behind.
 */
#pragma once

#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/frame.h"

#define PACKET_MAX (FRAME_PAYLOAD_MAX + 20)
#define PACKET_FD_COUNT_AT 6 /* in the header */

struct packet_way {
    int ends[2];
    int null_fd, strings_fd;
};

static inline void packet_open(struct packet_way *way, const char *strings, size_t strings_len)
{
    if (way->null_fd > 0)
        return;
    require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, way->ends) == 0);
    way->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    way->strings_fd = memfd_create("strings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    require(write(way->strings_fd, strings, strings_len) == (ssize_t) strings_len);
    require(fcntl(way->strings_fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0);
}

/* The last descriptor is one that may hold a command's strings. */
static inline void packet_send(const struct packet_way *way, const uint8_t *data, size_t size)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE((FRAME_FDS_MAX + 1) * sizeof(int))];
    } control = { .bytes = { 0 } };
    struct iovec iov = { (void *) data, size };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    size_t count = size > PACKET_FD_COUNT_AT ? data[PACKET_FD_COUNT_AT] % (FRAME_FDS_MAX + 2) : 0;

    if (count > 0) {
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
        for (size_t i = 0; i < count; i++)
            memcpy(CMSG_DATA(cmsg) + i * sizeof(int), i + 1 == count ? &way->strings_fd : &way->null_fd, sizeof(int));
    }
    require(sendmsg(way->ends[0], &msg, MSG_DONTWAIT) == (ssize_t) size);
}

/* Descriptors are given the lowest free number, so one that was left behind shows. */
static inline int packet_next_fd(const struct packet_way *way)
{
    int fd = dup(way->null_fd);

    close(fd);
    return fd;
}

/* Sends the packet and calls `check` with what arrives, if it is a frame. `strings` are those of the memfd. */
static inline void packet_pass(const uint8_t *data, size_t size, const char *strings, size_t strings_len,
                               void (*check)(const struct frame *frame))
{
    static char payload[FRAME_PAYLOAD_MAX];
    static struct packet_way way;
    struct frame frame;
    int before, r;

    if (size > PACKET_MAX)
        return;
    packet_open(&way, strings, strings_len);
    before = packet_next_fd(&way);
    packet_send(&way, data, size);
    r = frame_receive(way.ends[1], payload, sizeof(payload), FRAME_NOWAIT, &frame);
    require(r == 0 || r == -EPROTO || r == -EMSGSIZE || (r == -ECONNRESET && size == 0));
    if (r == 0) {
        check(&frame);
        frame_close_fds(&frame);
    }
    require(packet_next_fd(&way) == before);
}

/* What a decoder takes, the encoder makes again, byte for byte. */
static inline void require_same(const struct frame *a, const struct frame *b)
{
    require(a->type == b->type && a->id == b->id && a->len == b->len);
    require(a->len == 0 || memcmp(a->payload, b->payload, a->len) == 0);
}
