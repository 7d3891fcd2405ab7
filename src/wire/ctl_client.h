/*
 * A client's end of the control socket of a sandbox (see ctl_proto.h), for callers that may wait.
 *
 * Timeouts are in milliseconds and of the whole call; negative means none.
 */
#pragma once

#include "base/err.h"
#include "wire/ctl_proto.h"

/* Connects to the socket `ctl` in a sandbox's directory, however long the path of that is. A symlink is not followed.
 * -ENOENT, -ECONNREFUSED: the sandbox is not running. */
int ctl_client_connect(int sandbox_dir_fd, int *ret_fd, struct err *err);

/* One reply. `buf` holds FRAME_PAYLOAD_MAX bytes, from which `ret` borrows; the descriptors of `frame` are the caller's.
 * -ETIMEDOUT; -ECONNRESET: the supervisor is gone; -EPROTO, -EMSGSIZE: what came is no reply. */
int ctl_client_receive(int fd, void *buf, int timeout_ms, struct frame *frame, struct ctl_reply *ret);

/* Sends a frame, for instance one of ctl_run_encode(). -ETIMEDOUT when the supervisor does not read. */
int ctl_client_send(int fd, const struct frame *frame, int timeout_ms, struct err *err);

/* Waits for the OK, STATUS, SYNCED, FILE, LISTING or ERROR with this tag; what comes meanwhile is dropped. An ERROR is -EREMOTEIO, and `err` is what
 * the supervisor said. `buf` as above. */
int ctl_client_await(int fd, uint64_t tag, struct ctl_reply *ret, void *buf, int timeout_ms, struct err *err);

/* Sends a request, with `send_fd` unless that is -1, and waits for its answer: not for requests that have none (KILL, RESIZE,
 * STOP), nor for those that ctl_run_encode() makes. */
int ctl_client_call(int fd, const struct ctl_request *request, int send_fd, struct ctl_reply *ret, void *buf, int timeout_ms,
                    struct err *err);

/* The same, and the answer's descriptor is the caller's: -1 when there is none. */
int ctl_client_call_fd(int fd, const struct ctl_request *request, int send_fd, struct ctl_reply *ret, int *ret_fd, void *buf,
                       int timeout_ms, struct err *err);

/* SYNC: what the sandbox changed is in its codebase when this returns 0. `by` may be NULL. `ret` borrows from `buf`; it is zeroed
 * for a sandbox without a codebase, whose changes are safe in its delta then. */
int ctl_client_sync(int fd, uint64_t tag, const char *by, struct ctl_synced *ret, void *buf, int timeout_ms, struct err *err);

/* BASE_CHANGED. Absolute paths; none, or more than a message holds: everything. */
int ctl_client_base_changed(int fd, uint64_t tag, const char *const *paths, size_t count, void *buf, int timeout_ms,
                            struct err *err);
