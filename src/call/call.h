/*
 * One call of a method, whoever carries it: gRPC, REST, or a test.
 *
 * A handler sees only this. It runs in one thread of the pool; what the carrier does meanwhile in its own threads (bytes arriving, the
 * client hanging up, the deadline passing) reaches it through the functions here, which block until there is something or the call is
 * cancelled. A handler that waits for something else as well polls call_cancel_fd() beside it.
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

/* What the error tells programs beyond its code: "SANDBOX_NOT_FOUND", {"sandbox_id": "sb_..."}. */
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
    char *request_id;    /* owned by the carrier: of the client's choosing or made, for logs; never NULL */
    int64_t deadline_ns; /* monotonic clock; 0: none */
    const char *reason;  /* a literal; NULL: none */
    struct call_detail details[CALL_DETAILS_MAX];
    size_t detail_count;
    ProtobufCMessage *failure; /* owned: what more there is to say of it, in a message of its own; NULL: nothing */
    size_t failure_bytes;      /* how large the carrier lets `failure` be; 0: CALL_FAILURE_BYTES */
    char *owner;               /* owned: who this is, as the authentication found; NULL before */
    bool is_admin;             /* sees what belongs to others */
    char *
        *allowed_roots; /* owned, ended by NULL: directories that they may have live sandboxes over; NULL: they need no leave */
};

struct call_ops {
    /* The next request: 1 and a message that the caller frees with protobuf_c_message_free_unpacked(msg, NULL); 0 after the
     * last; -ECANCELED when the call is over; -EMSGSIZE, -EBADMSG for one that is too large or not what it should be, with `err`. */
    int (*recv)(struct call *call, ProtobufCMessage **ret, struct err *err);
    /* Sends an answer; waits as long as the client does not read what was sent before. -ECANCELED. */
    int (*send)(struct call *call, const ProtobufCMessage *message);
    /* What the client sent beside the message ("authorization"), lower-case names; NULL: not sent. Borrowed. "host" is what the client
     * calls us by, whoever carries it; of gRPC's binary fields ("x-bin") it is the bytes, with a NUL behind them. */
    const char *(*header)(struct call *call, const char *name);
    /* Sent after the last answer. Copied. */
    void (*set_trailer)(struct call *call, const char *name, const char *value);
    /* Readable as soon as the call is cancelled, its deadline passed or the client is gone; the same one at every call, not to be read
     * from. -1 with errno when there is none to be had. */
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
/* For a handler that waits for more than its client: readable as long as call_recv() would not wait for the next request, or for no more than
 * the rest of a large one. The same one at every call, not to be read from. -1: this carrier has none. */
int call_input_fd(struct call *call);

/* For programs: why the call fails. The last reason wins, and has the details added after it. */
void call_set_reason(struct call *call, const char *reason);
void call_add_detail(struct call *call, const char *key, const char *value);
/* Goes beside the reason, as one more of the status's details. Takes it. It should be small: what is too large for gRPC's trailers is left
 * out there. */
void call_take_failure(struct call *call, ProtobufCMessage *failure);
/* How many bytes of it the carrier takes. */
size_t call_failure_room(const struct call *call);

/* Frees what is owned by the part that this room knows; for carriers. */
void call_done(struct call *call);

/* Milliseconds until the deadline, for poll(2): -1 without one, 0 when it has passed. */
int call_ms_left(const struct call *call);
