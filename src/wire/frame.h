/*
 * One message between two of our processes: a type, an id, a payload, perhaps descriptors.
 *
 * Frames travel over connected unix sockets of type SOCK_SEQPACKET, one frame per packet, so the kernel keeps them apart and
 * several processes may send on one socket. The other end may be a stranger: no field is believed, nothing is allocated, and a
 * packet that is not exactly one frame of our version is refused whole, with its descriptors closed.
 *
 * What the types mean, and who may send which when, is not known here: see init_proto.h and ctl_proto.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FRAME_VERSION 1
#define FRAME_PAYLOAD_MAX 65536
#define FRAME_FDS_MAX 8

enum frame_wait {
    FRAME_WAIT,   /* until the frame went or came, unless the socket itself is non-blocking */
    FRAME_NOWAIT, /* -EAGAIN instead, also on a blocking socket */
};

struct frame {
    uint64_t id;
    uint16_t type;
    size_t len;
    const void *payload; /* borrowed */
    size_t fd_count;
    int fds[FRAME_FDS_MAX]; /* borrowed when sent; owned by the caller when received, CLOEXEC, -1 once taken */
};

/* Sends all of it or nothing, and never raises SIGPIPE. -ECONNRESET: the peer is gone. -EAGAIN: no room now. -EMSGSIZE: more
 * payload or descriptors than a frame holds. -ETOOMANYREFS, -ENOBUFS, ...: as sendmsg(2) says, nothing was sent. */
int frame_send(int sock, const struct frame *frame, enum frame_wait wait);

/* Receives one frame; its payload is put into `buf` and lent from there. Holds no memory but that. 0 and `ret`, or:
 * -ECONNRESET  the peer is gone (or sent an empty packet, which no peer of ours does)
 * -EAGAIN      nothing there
 * -EMSGSIZE    more than `cap` bytes of payload, more than FRAME_FDS_MAX descriptors, or no number free for one of them
 * -EPROTO      not one of our frames
 * After -EMSGSIZE and -EPROTO the packet is consumed and its descriptors are closed: the caller may go on or hang up. */
int frame_receive(int sock, void *buf, size_t cap, enum frame_wait wait, struct frame *ret);

/* Gives the descriptor away and leaves -1. */
int frame_take_fd(struct frame *frame, size_t index);

/* Closes the descriptors of a received frame that were not taken. */
void frame_close_fds(struct frame *frame);
