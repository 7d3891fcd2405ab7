/*
 * A call over gRPC. It connects an HTTP/2 stream and a handler.
 *
 * It has two sides, each with a reference. The stream's side belongs to the I/O thread: it feeds the request's bytes and sends
 * the answer's bytes and the status. The handler's side implements `struct call`. Bytes wait between the two. Of the request at
 * most one HTTP/2 window waits, because the client gets credit back only for bytes that the handler has read. Of the answers at
 * most GRPC_CALL_OUT_MAX bytes and one message wait; then the handler's next send blocks.
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
#define GRPC_CALL_PREFIX_BYTES 5 /* before each message: the flag for compression, and the length */

struct h2;

struct grpc_call {
    struct call call; /* first: the handler's view */
    struct rpc_context *ctx;
    struct conn_shared *shared; /* owned reference */
    struct metadata metadata;   /* const once the handler runs */
    void *cookie;               /* of the method's table */
    atomic_int refs;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Guarded by `lock`. */
    struct buf in;
    size_t in_taken;
    bool in_done;        /* the client has sent everything */
    size_t credit_bytes; /* read by the handler, and not yet given back to the client */
    struct buf out;
    size_t out_taken;
    size_t sent_count;
    bool is_cancelled;
    bool is_over;      /* `status` is final; it is sent after `out` */
    bool is_overdrawn; /* an answer was too large. The handler cannot change `status` any more */
    bool handler_gone;
    int cancel_fd; /* owned; -1: not requested */
    int input_fd;  /* owned; -1: not requested. Readable while grpc_call_has_input() */
    struct status status;

    /* Used only by the handler. */
    size_t received_count;

    /* Used only by the I/O thread; see h2.c. */
    struct h2 *h2; /* NULL: the connection is closed */
    struct grpc_call *next, **link_from, *next_waiting;
    int32_t stream_id;
    bool has_headers, has_stream, has_handler, is_waiting, has_answered, is_deferred, is_counted, client_is_done, has_ended;
    int64_t begun_ns;
    struct deadline deadline;

    /* Guarded by the mailbox's lock. */
    struct grpc_call *next_posted;
    bool is_posted;
};

/* Returns one reference, the stream's. */
struct grpc_call *grpc_call_new(struct rpc_context *ctx, struct conn_shared *shared);
struct grpc_call *grpc_call_ref(struct grpc_call *call);
void grpc_call_unref(struct grpc_call *call);

/* Runs the handler, in a thread of the pool. Takes a reference. */
void grpc_call_run(void *call);

/* The stream's side. */
void grpc_call_feed(struct grpc_call *call, const void *bytes, size_t len);
void grpc_call_feed_end(struct grpc_call *call);
/* For a client that disconnected or cancelled the call. */
void grpc_call_cancel(struct grpc_call *call);
/* Ends the call from the server's side, whatever the handler does, and drops output that is not sent yet. */
void grpc_call_fail(struct grpc_call *call, enum err_code code, const char *text);
/* Reads up to `len` bytes of the answers. `ret_end`: these are the last, and the status is final. */
size_t grpc_call_read(struct grpc_call *call, void *bytes, size_t len, bool *ret_end);
/* Wakes a handler that waits until its connection accepts more output. */
void grpc_call_wake(struct grpc_call *call);

/* Shared by the two sides. */
extern const struct call_ops grpc_call_ops;            /* grpc_call_ops.c */
void grpc_call_mark_cancelled(struct grpc_call *call); /* call with the lock held */
/* Makes `input_fd` readable or not, as the pending input is. Call with the lock held. */
void grpc_call_show_input(struct grpc_call *call);
void grpc_call_empty(struct buf *buf); /* clears the buffer; frees its memory if that is large */
