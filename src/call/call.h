/*
 * One call of a method, independent of its carrier: gRPC, REST or a test.
 *
 * A handler sees only this and runs in a thread of the pool. The carrier's own threads notice arriving bytes, a client that hangs up and a deadline
 * that passes; the handler learns of them through the functions here, which block until there is something or the call is cancelled. A handler
 * that waits for something else too polls call_cancel_fd() as well.
 *
 * Carriers embed `struct call` as the first member of their own and fill in `ops`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/err.h"
#include "call/method.h"
#include "call/peer.h"

/* Error details for programs, beside the code: "SANDBOX_NOT_FOUND", {"sandbox_id": "sb_..."}. */
#define CALL_DETAILS_MAX 4

/* The size of a failure that fits into gRPC's trailers. */
#define CALL_FAILURE_BYTES 1100

struct call_detail {
    const char *key; /* a literal */
    char *value;     /* owned */
};

struct call {
    const struct call_ops *ops;
    const struct method *method;
    const struct peer *peer;
    char *request_id;    /* owned by the carrier: chosen by the client or generated, for logs; never NULL */
    int64_t deadline_ns; /* monotonic clock; 0: none */
    const char *reason;  /* a literal; NULL: none */
    struct call_detail details[CALL_DETAILS_MAX];
    size_t detail_count;
    ProtobufCMessage *failure; /* owned: a message with more details of the error; NULL: none */
    size_t failure_bytes;      /* how large the carrier lets `failure` be; 0: CALL_FAILURE_BYTES */
    char *owner;               /* owned: set by authentication; NULL before */
    bool is_admin;             /* sees what belongs to others */
    char **allowed_roots;      /* owned, ended by NULL: directories that the caller may have sandboxes over; NULL: any */
};

struct call_ops {
    /* The next request: 1 and a message that the caller frees with protobuf_c_message_free_unpacked(msg, NULL); 0 after the
     * last; -ECANCELED if the call has ended; -EMSGSIZE or -EBADMSG with `err` for a request that is too large or malformed. */
    int (*recv)(struct call *call, ProtobufCMessage **ret, struct err *err);
    /* Sends an answer; blocks while the client does not read earlier ones. -ECANCELED. */
    int (*send)(struct call *call, const ProtobufCMessage *message);
    /* A header of the request ("authorization") by its lower-case name; NULL: not sent. Borrowed. Every carrier provides "host". A binary header
     * of gRPC ("x-bin") is returned decoded, with a NUL behind it. */
    const char *(*header)(struct call *call, const char *name);
    /* Sent after the last answer. Copied. */
    void (*set_trailer)(struct call *call, const char *name, const char *value);
    /* Becomes readable when the call is cancelled, its deadline passes or the client is gone. Always the same descriptor; do not read from
     * it. -1 with errno if none can be created. */
    int (*cancel_fd)(struct call *call);
    bool (*is_cancelled)(struct call *call);
    /* See call_input_fd(); NULL: none. */
    int (*input_fd)(struct call *call);
};

int call_recv(struct call *call, ProtobufCMessage **ret, struct err *err);
int call_send(struct call *call, const ProtobufCMessage *message);
const char *call_header(struct call *call, const char *name);
void call_set_trailer(struct call *call, const char *name, const char *value);
int call_cancel_fd(struct call *call);
bool call_is_cancelled(struct call *call);
/* For handlers that wait for more than their client: readable while call_recv() would return at once, or would only wait for the rest of a large
 * request. Always the same descriptor; do not read from it. -1: this carrier has none. */
int call_input_fd(struct call *call);

/* Why the call fails, for programs. The last reason wins and has the details that are added after it. */
void call_set_reason(struct call *call, const char *reason);
void call_add_detail(struct call *call, const char *key, const char *value);
/* Adds the message to the details of the status and takes it. gRPC leaves it out if it does not fit into the trailers. */
void call_take_failure(struct call *call, ProtobufCMessage *failure);
/* How many bytes of it the carrier takes. */
size_t call_failure_room(const struct call *call);

/* Frees what this struct owns; for carriers. */
void call_done(struct call *call);

/* Milliseconds until the deadline, for poll(2): -1 without one, 0 if it has passed. */
int call_ms_left(const struct call *call);
