/*
 * A server of gRPC: HTTP/2 by nghttp2, methods from a table, handlers in the threads of a pool.
 *
 * One thread of its own does all input and output, so a connection costs memory but no thread, and a slow or hostile one holds up nobody.
 * Signals must be blocked before a server is started. It adds grpc.health.v1.Health and, given descriptors, grpc.reflection.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "call/listener.h"
#include "call/method.h"
#include "call/pool.h"
#include "call/tls.h"

/* Zero: the default in brackets. */
struct rpc_limits {
    unsigned connections_max; /* [1024] beyond, they are closed at once; three quarters are the most of others than our user */
    unsigned streams_max;     /* [256] calls that a connection may have open */
    unsigned running_max;     /* [128] of these at work; the others wait */
    unsigned message_bytes_max;    /* [4 MiB] both ways */
    unsigned header_bytes_max;     /* [16 KiB] of a request's header fields */
    unsigned queued_bytes_max;     /* [32 MiB] answers of a connection that its client does not take */
    unsigned handshake_ms;         /* [10 s] for TLS and the first frames, and for a header block once begun */
    unsigned keepalive_ms;         /* [60 s] without a sign of life before it is asked for one */
    unsigned keepalive_timeout_ms; /* [20 s] for the answer */
    unsigned stall_ms;             /* [60 s] that the socket may take nothing, or a request not go on */
    unsigned slow_reader_ms;       /* [10 min] that a call may wait for its client to take answers */
    unsigned age_ms;               /* [0: none] after which a connection is asked to go, once its calls are done */
    unsigned reset_burst;          /* [500] calls that a client may take back at once before it is sent away, */
    unsigned reset_per_second;     /* [50] and how many it is forgiven each second */
};

/* A call that is over. */
struct rpc_call_end {
    const struct method *method; /* NULL: one that is not served */
    enum err_code code;
    int64_t duration_ns;
};

struct rpc_options {
    struct listener *listeners; /* borrowed, as all of these, and longer than the server lives */
    size_t listener_count;
    struct tls *tls; /* for all but unix sockets; NULL: none */
    struct pool *pool;
    const struct method_table *methods;
    const void *descriptors; /* a FileDescriptorSet, for reflection; NULL: none is served */
    size_t descriptors_len;
    struct rpc_limits limits;
    void (*on_call_end)(void *cookie, const struct rpc_call_end *end); /* from the I/O thread: brief; NULL: nobody asks */
    void *on_call_end_cookie;
};

struct rpc_stats {
    uint64_t connections;          /* open now */
    uint64_t connections_accepted; /* ever, as are the rest */
    uint64_t connections_refused;  /* for want of room or of descriptors */
    uint64_t calls_started;
    uint64_t bytes_in, bytes_out; /* of HTTP/2, before TLS */
};

struct rpc_server;

int rpc_server_new(const struct rpc_options *options, struct rpc_server **ret, struct err *err);
int rpc_server_start(struct rpc_server *server, struct err *err);

/* Takes no more connections or calls, tells clients to go elsewhere, and waits for the calls at work. 0 when all are done; -ETIMEDOUT after
 * `timeout_ms`: those that were left are cancelled. */
int rpc_server_drain(struct rpc_server *server, int timeout_ms);

/* Cancels what is still at work, and waits for the handlers to notice. */
void rpc_server_free(struct rpc_server *server);
DEFINE_AUTOPTR(rpc_server, rpc_server_free);

/* What grpc.health.v1 says. It is serving from the start to the drain; in between, whatever was set last. */
void rpc_server_set_serving(struct rpc_server *server, bool is_serving);

void rpc_server_stats(struct rpc_server *server, struct rpc_stats *ret);
