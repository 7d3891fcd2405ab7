/*
 * A client of a sandbox's control socket (see ctl_proto.h), for callers that may block.
 *
 * Timeouts are in milliseconds and cover the whole call; a negative one means no timeout.
 */
#pragma once

#include "base/err.h"
#include "wire/ctl_proto.h"

/* Connects to the socket `ctl` in a sandbox's directory, whatever the length of its path. Does not follow a symlink. -ENOENT or
 * -ECONNREFUSED mean that the sandbox is not running. */
int ctl_client_connect(int sandbox_dir_fd, int *ret_fd, struct err *err);

/* Receives one reply. `buf` holds FRAME_PAYLOAD_MAX bytes, and `ret` borrows from it; the caller owns the descriptors of
 * `frame`. -ETIMEDOUT; -ECONNRESET if the supervisor closed the connection; -EPROTO or -EMSGSIZE if the packet is not a valid
 * reply. */
int ctl_client_receive(int fd, void *buf, int timeout_ms, struct frame *frame, struct ctl_reply *ret);

/* Sends a frame, such as one from ctl_run_encode(). -ETIMEDOUT if the supervisor does not read. */
int ctl_client_send(int fd, const struct frame *frame, int timeout_ms, struct err *err);

/* Waits for the OK, STATUS, SYNCED, FILE, LISTING or ERROR with this tag and drops other replies. For an ERROR returns
 * -EREMOTEIO, with the supervisor's error in `err`. `buf` as above. */
int ctl_client_await(int fd, uint64_t tag, struct ctl_reply *ret, void *buf, int timeout_ms, struct err *err);

/* Sends a request, with the descriptor `send_fd` unless that is -1, and waits for its answer. Not for requests without an
 * answer (KILL, RESIZE, STOP), nor for those from ctl_run_encode(). */
int ctl_client_call(int fd, const struct ctl_request *request, int send_fd, struct ctl_reply *ret, void *buf, int timeout_ms,
                    struct err *err);

/* Like ctl_client_call(), and returns the answer's descriptor, which the caller owns, or -1. */
int ctl_client_call_fd(int fd, const struct ctl_request *request, int send_fd, struct ctl_reply *ret, int *ret_fd, void *buf,
                       int timeout_ms, struct err *err);

/* SYNC: when this returns 0, the codebase contains the sandbox's changes. `by` may be NULL. `ret` borrows from `buf`. For a
 * sandbox without a codebase `ret` is zeroed, and the changes are durable in its delta. */
int ctl_client_sync(int fd, uint64_t tag, const char *by, struct ctl_synced *ret, void *buf, int timeout_ms, struct err *err);

/* BASE_CHANGED. `paths` are absolute; if there are none, or more than a message holds, everything counts as changed. */
int ctl_client_base_changed(int fd, uint64_t tag, const char *const *paths, size_t count, void *buf, int timeout_ms,
                            struct err *err);
