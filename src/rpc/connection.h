/*
 * A client's connection: its socket, TLS if any, and the clocks that end it when nothing moves.
 *
 *     HANDSHAKE ──▶ OPEN ──▶ LINGER ──▶ DEAD          LINGER: all is said, we wait for the other side to hang up, so that it reads our
 *         └───────────┴──────────────────▲            farewell. DEAD: nothing left but to be freed, by whoever owns it.
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

/* Takes the connected, non-blocking `fd`. It is watched by `epoll_fd`, with the connection as the event's pointer. `tls` NULL: plain. */
int connection_new(struct rpc_context *ctx, int epoll_fd, int fd, struct tls *tls, struct connection **ret);
void connection_free(struct connection *connection);

enum connection_state connection_state(const struct connection *connection);
bool connection_is_of_our_user(const struct connection *connection);

void connection_on_event(struct connection *connection, uint32_t events);
/* Sends what there is to be sent. */
void connection_flush(struct connection *connection);
/* Does what is due, and says when next. */
int64_t connection_tick(struct connection *connection);
/* Asks the client to go. */
void connection_shutdown(struct connection *connection);

/* For the owner's lists: all of them, and those that have something to send. */
struct connection_node {
    struct connection *next, *next_dirty;
    bool is_dirty;
};

struct connection_node *connection_node(struct connection *connection);
