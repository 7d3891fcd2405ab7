/*
 * A call that came by gRPC, between a stream of HTTP/2 and a handler.
 *
 * It has two sides, each with a reference. The stream's side belongs to the I/O thread: bytes go in, bytes and the status come out. The
 * handler's side implements `struct call`. Bytes wait in between: of the request no more than the stream's window, for credit is given
 * back only for what the handler took; of the answers what GRPC_CALL_OUT_MAX says, and one message. Then whoever brings more waits.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "call/call.h"
#include "rpc/deadline.h"
#include "rpc/metadata.h"
#include "rpc/rpc_int.h"
#include "rpc/status.h"

#define GRPC_CALL_OUT_MAX (64u << 10)
#define GRPC_CALL_PREFIX_BYTES 5 /* of each message: whether it is compressed, and its length */

struct h2;

struct grpc_call {
    struct call call; /* first: the handler's view */
    struct rpc_context *ctx;
    struct conn_shared *shared; /* owned reference */
    struct metadata metadata;   /* const once the handler runs */
    void *cookie;               /* the method's table's */
    atomic_int refs;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under the lock. */
    struct buf in;
    size_t in_taken;
    bool in_done;        /* the client has said all */
    size_t credit_bytes; /* taken by the handler and not yet given back to the client */
    struct buf out;
    size_t out_taken;
    size_t sent_count;
    bool is_cancelled;
    bool is_over;      /* `status` is final, and follows what is in `out` */
    bool is_overdrawn; /* an answer was too large: `status` says so, whatever the handler does */
    bool handler_gone;
    int cancel_fd; /* owned; -1: nobody asked */
    int input_fd;  /* owned; likewise; readable while grpc_call_has_input() */
    struct status status;

    /* The handler's alone. */
    size_t received_count;

    /* The I/O thread's alone: see h2.c. */
    struct h2 *h2; /* NULL: the connection is gone */
    struct grpc_call *next, **link_from, *next_waiting;
    int32_t stream_id;
    bool has_headers, has_stream, has_handler, is_waiting, has_answered, is_deferred, is_counted, client_is_done, has_ended;
    int64_t begun_ns;
    struct deadline deadline;

    /* Under the mailbox's lock. */
    struct grpc_call *next_posted;
    bool is_posted;
};

/* With one reference, the stream's. */
struct grpc_call *grpc_call_new(struct rpc_context *ctx, struct conn_shared *shared);
struct grpc_call *grpc_call_ref(struct grpc_call *call);
void grpc_call_unref(struct grpc_call *call);

/* Runs the handler, in a thread of the pool; takes a reference. */
void grpc_call_run(void *call);

/* The stream's side. */
void grpc_call_feed(struct grpc_call *call, const void *bytes, size_t len);
void grpc_call_feed_end(struct grpc_call *call);
/* The client has gone, or does not want it any more. */
void grpc_call_cancel(struct grpc_call *call);
/* Ends it from this side, whatever the handler does; what was not sent yet is dropped. */
void grpc_call_fail(struct grpc_call *call, enum err_code code, const char *text);
/* Up to `len` bytes of the answers. `ret_end`: these were the last, and the status is there. */
size_t grpc_call_read(struct grpc_call *call, void *bytes, size_t len, bool *ret_end);
/* Wakes a handler that waits for its connection to take more. */
void grpc_call_wake(struct grpc_call *call);

/* Shared by the two sides. */
extern const struct call_ops grpc_call_ops;            /* grpc_call_ops.c */
void grpc_call_mark_cancelled(struct grpc_call *call); /* with the lock held */
/* Makes `input_fd` say what there is; with the lock held. */
void grpc_call_show_input(struct grpc_call *call);
void grpc_call_empty(struct buf *buf); /* clears, and keeps the memory only if it is little */
