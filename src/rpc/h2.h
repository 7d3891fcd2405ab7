/*
 * HTTP/2 on one connection: bytes in, bytes out, and between them the streams, each of them a call. It uses no sockets and
 * never waits, so a test can play the network. Only the I/O thread uses it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "rpc/rpc_int.h"

struct h2;

/* h2_handle_posted() and h2_end_overdue() name the session by its `owner`. -ENOMEM. */
int h2_new(struct rpc_context *ctx, struct conn_shared *shared, void *owner, struct h2 **ret);
/* Cancels its calls. */
void h2_free(struct h2 *h2);
DEFINE_AUTOPTR(h2, h2_free);

/* -EPROTO: send the remaining output, then close. */
int h2_feed(struct h2 *h2, const void *bytes, size_t len);

/* Lends the next bytes to send, until the next call of any function here. Returns 0 if there are none now; -EPROTO. */
ssize_t h2_read_output(struct h2 *h2, const uint8_t **ret);

/* Neither side will send anything more. */
bool h2_is_done(const struct h2 *h2);

/* The client leaves more answers to control frames unread than a well-behaved client does. */
bool h2_is_clogged(const struct h2 *h2);

/* Handles a call that its handler has posted to the mailbox, and takes that reference. Returns the session's owner if the
 * session has output now, else NULL. */
void *h2_handle_posted(struct grpc_call *call);

/* Ends calls that are past their deadline. Calls `on_owner` for each session that has output now. */
void h2_end_overdue(struct rpc_context *ctx, void (*on_owner)(void *owner, void *cookie), void *cookie);

/* Sends a PING, to check that the client is alive. */
void h2_ping(struct h2 *h2);

/* Asks the client to open no more streams, and still serves the streams that it opens until it has read that. After that
 * h2_shutdown_now() happens by itself: it refuses every new stream. */
void h2_shutdown(struct h2 *h2);
void h2_shutdown_now(struct h2 *h2);

bool h2_is_greeted(const struct h2 *h2);          /* the client's first frames have arrived */
int64_t h2_headers_since_ns(const struct h2 *h2); /* when an unfinished header block began; 0: there is none */
