/*
 * Receives the events of all running sandboxes in one thread: refusals, limits that were hit, ends of commands and sessions, and ends of
 * sandboxes that this server did not request.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct service;
struct sandbox_conn;

int watch_start_thread(struct service *service, struct err *err);
void watch_stop_thread(struct service *service);

/* Takes ownership of the connection, and holds the conn until the connection ends. Ignores events that the supervisor numbered up to
 * `after`. */
int watch_add(struct service *service, struct sandbox_conn *conn, int fd, uint64_t after, struct err *err);
