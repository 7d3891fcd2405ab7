/*
 * Shared by the files of this module.
 *
 * There are two kinds of threads. One thread does all input and output: it owns connections, HTTP/2 sessions, deadlines, and
 * the stream side of each call. Handlers run in threads of the pool and see only their call. They meet in two places, each with
 * a lock:
 *
 *   1. grpc_call.lock    pending input and output of a call, and how it ended
 *   2. mailbox.lock      calls that the I/O thread must look at
 *
 * Take them in this order, or alone. Nothing blocks while it holds one. The only system call under them wakes the other side.
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
/* Returns the next one with its reference, or NULL. */
struct grpc_call *mailbox_take(struct mailbox *mailbox);

/* Shared by a connection and its calls. A call may outlive the connection. */
struct conn_shared {
    atomic_int refs;
    struct peer peer;           /* const once calls exist */
    atomic_size_t queued_bytes; /* answers of all calls that HTTP/2 has not taken yet */
    size_t queued_max;
};

struct conn_shared *conn_shared_new(void);
struct conn_shared *conn_shared_ref(struct conn_shared *shared);
void conn_shared_unref(struct conn_shared *shared);

#define RPC_READ_BYTES (64u << 10)

/* The part of the server that sessions use. Only the I/O thread uses it, except for atomic and locked fields. */
struct rpc_context {
    const struct method_table *tables[4]; /* borrowed, ended by NULL: the server's methods, health and reflection */
    struct rpc_limits limits;             /* zeros are replaced by the defaults */
    struct mailbox mailbox;
    struct deadline_heap deadlines; /* of calls */
    int64_t now_ns;                 /* when this turn of the event loop began */
    char *read_bytes;               /* owned: RPC_READ_BYTES of scratch space for any reader */
    bool is_draining;
    /* Arranges a call of grpc_call_run(), which takes a reference of `call`. -EAGAIN if no thread is free. */
    int (*start)(struct rpc_context *ctx, struct grpc_call *call);
    void (*on_call_end)(void *cookie, const struct rpc_call_end *end);
    void *on_call_end_cookie;
    /* Handlers running or queued. rpc_context_done() waits for them, because they use the context. */
    pthread_mutex_t lock;
    pthread_cond_t idle;
    size_t handlers;
    atomic_uint_fast64_t calls_started, bytes_in, bytes_out;
};

int rpc_context_init(struct rpc_context *ctx, const struct rpc_limits *limits);
/* Waits until all handlers have returned. */
void rpc_context_done(struct rpc_context *ctx);
void rpc_context_enter(struct rpc_context *ctx);
void rpc_context_leave(struct rpc_context *ctx);
