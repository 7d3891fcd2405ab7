/*
 * One message between two of our processes: a type, an id, a payload, and possibly descriptors.
 *
 * Frames use connected unix sockets of type SOCK_SEQPACKET, one frame per packet: the kernel separates frames, and several
 * processes may send on one socket. The peer may be hostile. Every field is checked and nothing is allocated. A packet that is
 * not exactly one frame of our version is refused as a whole and its descriptors are closed.
 *
 * init_proto.h and ctl_proto.h define the types and the order of messages.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FRAME_VERSION 1
#define FRAME_PAYLOAD_MAX 65536
#define FRAME_FDS_MAX 8

enum frame_wait {
    FRAME_WAIT,   /* block until the frame was sent or received, unless the socket is non-blocking */
    FRAME_NOWAIT, /* return -EAGAIN instead, even on a blocking socket */
};

struct frame {
    uint64_t id;
    uint16_t type;
    size_t len;
    const void *payload; /* borrowed */
    size_t fd_count;
    int fds[FRAME_FDS_MAX]; /* borrowed when sending; owned by the caller after receiving, CLOEXEC, -1 after frame_take_fd() */
};

/* Sends the whole frame or nothing, and never raises SIGPIPE. -ECONNRESET: the peer is gone. -EAGAIN: the socket is full.
 * -EMSGSIZE: more payload or descriptors than a frame holds. -ETOOMANYREFS, -ENOBUFS and other errors of sendmsg(2): nothing
 * was sent. */
int frame_send(int sock, const struct frame *frame, enum frame_wait wait);

/* Receives one frame, with its payload in `buf`, from which `ret` borrows. Returns 0 or:
 * -ECONNRESET  the peer is gone (or sent an empty packet, which our programs never do)
 * -EAGAIN      there is no frame
 * -EMSGSIZE    more than `cap` bytes of payload, more than FRAME_FDS_MAX descriptors, or no free number for one of them
 * -EPROTO      not one of our frames
 * After -EMSGSIZE and -EPROTO the packet is consumed and its descriptors are closed. The caller may continue or close. */
int frame_receive(int sock, void *buf, size_t cap, enum frame_wait wait, struct frame *ret);

/* Gives the descriptor to the caller and leaves -1. */
int frame_take_fd(struct frame *frame, size_t index);

/* Closes the descriptors of a received frame that the caller has not taken. */
void frame_close_fds(struct frame *frame);
