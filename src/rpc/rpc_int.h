/*
 * What the parts of the room share.
 *
 * Two kinds of threads meet here. One thread does all input and output: it owns connections, HTTP/2 sessions, deadlines, and the stream side
 * of each call. Handlers run in threads of the pool and see of all this only their call. They meet in two places, each with a lock:
 *
 *   1. grpc_call.lock    bytes that came and bytes that are to go, how the call ended
 *   2. mailbox.lock      calls that the I/O thread should look at
 *
 * taken in this order or alone. Nothing blocks while holding one, and no system call is made under them but waking the other side.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "call/method.h"
#include "call/peer.h"
#include "rpc/deadline.h"
#include "rpc/server.h"

struct grpc_call;

/* Calls on their way from handlers to the I/O thread, each with a reference. */
struct mailbox {
    pthread_mutex_t lock;
    struct grpc_call *first, **last;
    int wake_fd; /* owned; an eventfd, written when the first call comes in */
};

int mailbox_init(struct mailbox *mailbox);
void mailbox_done(struct mailbox *mailbox);
void mailbox_post(struct mailbox *mailbox, struct grpc_call *call);
/* The next one, with its reference; NULL: none. */
struct grpc_call *mailbox_take(struct mailbox *mailbox);

/* What a connection and its calls both hold: a call may outlive the connection. */
struct conn_shared {
    atomic_int refs;
    struct peer peer;           /* const once calls exist */
    atomic_size_t queued_bytes; /* answers not yet handed to HTTP/2, of all calls */
    size_t queued_max;
};

struct conn_shared *conn_shared_new(void);
struct conn_shared *conn_shared_ref(struct conn_shared *shared);
void conn_shared_unref(struct conn_shared *shared);

#define RPC_READ_BYTES (64u << 10)

/* What sessions need of the server they belong to. All of the I/O thread, but for what is atomic or has a lock. */
struct rpc_context {
    const struct method_table *tables[4]; /* borrowed, ended by NULL: the server's own, and what the room adds */
    struct rpc_limits limits;             /* no zeros any more */
    struct mailbox mailbox;
    struct deadline_heap deadlines; /* of calls */
    int64_t now_ns;                 /* when this turn began */
    char *read_bytes;               /* owned: room for RPC_READ_BYTES, for whoever reads just now */
    bool is_draining;
    /* Has grpc_call_run() called for a reference of `call` that it takes. -EAGAIN when there is no thread to be had. */
    int (*start)(struct rpc_context *ctx, struct grpc_call *call);
    void (*on_call_end)(void *cookie, const struct rpc_call_end *end);
    void *on_call_end_cookie;
    /* Handlers at work or in line: the host must not go before they have. */
    pthread_mutex_t lock;
    pthread_cond_t idle;
    size_t handlers;
    atomic_uint_fast64_t calls_started, bytes_in, bytes_out;
};

int rpc_context_init(struct rpc_context *ctx, const struct rpc_limits *limits);
/* Waits for the handlers. */
void rpc_context_done(struct rpc_context *ctx);
void rpc_context_enter(struct rpc_context *ctx);
void rpc_context_leave(struct rpc_context *ctx);
