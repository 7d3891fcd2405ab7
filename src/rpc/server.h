/*
 * A gRPC server: HTTP/2 by nghttp2, methods from a table, handlers in the threads of a pool.
 *
 * One thread of its own does all input and output, so a connection costs memory but no thread, and a slow or hostile client
 * does not delay others. Block signals before starting a server. It adds grpc.health.v1.Health and, given descriptors,
 * grpc.reflection.
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

/* Zero means the default in brackets. */
struct rpc_limits {
    unsigned connections_max;      /* [1024] more are closed at once; other users get at most three quarters */
    unsigned streams_max;          /* [256] open calls per connection */
    unsigned running_max;          /* [128] running calls per connection; further calls wait */
    unsigned message_bytes_max;    /* [4 MiB] in both directions */
    unsigned header_bytes_max;     /* [16 KiB] of a request's header fields */
    unsigned queued_bytes_max;     /* [32 MiB] answers of a connection that its client has not read */
    unsigned handshake_ms;         /* [10 s] for TLS and the first frames, and for a header block */
    unsigned keepalive_ms;         /* [60 s] without input before we send a PING */
    unsigned keepalive_timeout_ms; /* [20 s] for the answer to the PING */
    unsigned stall_ms;             /* [60 s] without progress of the socket's output or of a request */
    unsigned slow_reader_ms;       /* [10 min] that a call may wait until its client reads answers */
    unsigned age_ms;               /* [0: never] when to ask a client to leave; its calls may finish */
    unsigned reset_burst;          /* [500] calls that a client may cancel at once, before we disconnect it, */
    unsigned reset_per_second;     /* [50] and by how many this count decreases each second */
};

/* A finished call. */
struct rpc_call_end {
    const struct method *method; /* NULL: an unknown method */
    enum err_code code;
    int64_t duration_ns;
};

struct rpc_options {
    struct listener *listeners; /* borrowed, like all of these; must outlive the server */
    size_t listener_count;
    struct tls *tls; /* for all except unix sockets; NULL: no TLS */
    struct pool *pool;
    const struct method_table *methods;
    const void *descriptors; /* a FileDescriptorSet, for reflection; NULL: no reflection */
    size_t descriptors_len;
    struct rpc_limits limits;
    void (*on_call_end)(void *cookie, const struct rpc_call_end *end); /* must be brief: runs in the I/O thread. May be NULL */
    void *on_call_end_cookie;
};

struct rpc_stats {
    uint64_t connections;          /* open now */
    uint64_t connections_accepted; /* since the start, as are the rest */
    uint64_t connections_refused;  /* too many connections or descriptors */
    uint64_t calls_started;
    uint64_t bytes_in, bytes_out; /* of HTTP/2, before TLS */
};

struct rpc_server;

int rpc_server_new(const struct rpc_options *options, struct rpc_server **ret, struct err *err);
int rpc_server_start(struct rpc_server *server, struct err *err);

/* Accepts no more connections or calls, asks clients to leave, and waits for running calls. Returns 0 when all have ended;
 * after `timeout_ms` it cancels the rest and returns -ETIMEDOUT. */
int rpc_server_drain(struct rpc_server *server, int timeout_ms);

/* Cancels running calls and waits until their handlers return. */
void rpc_server_free(struct rpc_server *server);
DEFINE_AUTOPTR(rpc_server, rpc_server_free);

/* Sets the status that grpc.health.v1 reports. It is serving after the start and not serving from the drain on. */
void rpc_server_set_serving(struct rpc_server *server, bool is_serving);

void rpc_server_stats(struct rpc_server *server, struct rpc_stats *ret);
