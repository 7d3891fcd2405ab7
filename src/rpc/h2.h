/*
 * HTTP/2 of one connection: bytes in, bytes out, and in between the streams, each a call. It knows no sockets and never waits, so a test
 * can play the network. All of it belongs to the I/O thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "rpc/rpc_int.h"

struct h2;

/* `owner` is whom h2_handle_posted() tells about. -ENOMEM. */
int h2_new(struct rpc_context *ctx, struct conn_shared *shared, void *owner, struct h2 **ret);
/* Cancels its calls. */
void h2_free(struct h2 *h2);
DEFINE_AUTOPTR(h2, h2_free);

/* -EPROTO: it is not worth going on, but for what there is still to say. */
int h2_feed(struct h2 *h2, const void *bytes, size_t len);

/* The next bytes to send, valid until the next call of anything here; 0: none now; -EPROTO. */
ssize_t h2_read_output(struct h2 *h2, const uint8_t **ret);

/* Nothing more will be said, by either side. */
bool h2_is_done(const struct h2 *h2);

/* More answers to control frames are waiting than a client that reads leaves unread. */
bool h2_is_clogged(const struct h2 *h2);

/* Looks at a call that its handler has put into the mailbox, and takes that reference. The owner of the session that has something to send
 * now; NULL: there is none. */
void *h2_handle_posted(struct grpc_call *call);

/* Ends the calls whose time is over; `on_owner` is told of each session that has something to send now. */
void h2_end_overdue(struct rpc_context *ctx, void (*on_owner)(void *owner, void *cookie), void *cookie);

/* Asks for a sign of life. */
void h2_ping(struct h2 *h2);

/* Tells the client to open no more streams; what it opens meanwhile is still served. h2_shutdown_now() closes the door for good; that happens
 * by itself when the client has answered. */
void h2_shutdown(struct h2 *h2);
void h2_shutdown_now(struct h2 *h2);

bool h2_is_greeted(const struct h2 *h2);          /* the client's first frames have come */
int64_t h2_headers_since_ns(const struct h2 *h2); /* when a header block began that has not ended; 0: none */
