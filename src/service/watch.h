/*
 * Hearing what happens in the sandboxes that run: refusals, limits that were hit, commands and sessions that ended, and the end of a
 * sandbox that nobody asked for. One thread for all of them.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct service;
struct sandbox_conn;

int watch_start_thread(struct service *service, struct err *err);
void watch_stop_thread(struct service *service);

/* Takes the connection, holds the conn until it ends. What the supervisor numbered up to `after` is known already. */
int watch_add(struct service *service, struct sandbox_conn *conn, int fd, uint64_t after, struct err *err);
