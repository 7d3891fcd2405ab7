/*
 * A client's connection: its socket, TLS if any, and the timeouts that end it when nothing moves.
 *
 *     HANDSHAKE ──▶ OPEN ──▶ LINGER ──▶ DEAD          LINGER: we have sent everything and wait until the client hangs up, so
 *         └───────────┴──────────────────▲            that it reads our last frames. DEAD: the owner may free it.
 *
 * Belongs to the I/O thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "call/tls.h"
#include "rpc/rpc_int.h"

enum connection_state { CONNECTION_HANDSHAKE, CONNECTION_OPEN, CONNECTION_LINGER, CONNECTION_DEAD };

struct connection;

/* Takes the connected, non-blocking `fd` and watches it with `epoll_fd`; the event's pointer is the connection. `tls` NULL: no
 * TLS. */
int connection_new(struct rpc_context *ctx, int epoll_fd, int fd, struct tls *tls, struct connection **ret);
void connection_free(struct connection *connection);

enum connection_state connection_state(const struct connection *connection);
bool connection_is_of_our_user(const struct connection *connection);

void connection_on_event(struct connection *connection, uint32_t events);
/* Sends pending output, as much as the socket takes. */
void connection_flush(struct connection *connection);
/* Acts on the timeouts that are due. Returns when to call it next. */
int64_t connection_tick(struct connection *connection);
/* Asks the client to close the connection. */
void connection_shutdown(struct connection *connection);

/* For the owner's two lists: all connections, and those with pending output. */
struct connection_node {
    struct connection *next, *next_dirty;
    bool is_dirty;
};

struct connection_node *connection_node(struct connection *connection);
