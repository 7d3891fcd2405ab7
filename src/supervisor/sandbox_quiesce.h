/*
 * Holding the sandbox's files still for a client (QUIESCE, REVERT, RELEASE of wire/ctl_proto.h), in a thread beside the reactor, which closes
 * the fence's gate and opens it again; or, where there is no fence, freezes the sandbox's processes and thaws them. There nothing can be dropped.
 *
 *     none ──QUIESCE──▶ closing ──▶ held ──RELEASE, limit, client gone, sandbox_stop()──▶ releasing ──▶ none
 *
 * Whoever holds cannot stop a sandbox for longer than his limit, whatever becomes of him.
 */
#pragma once

#include <stdbool.h>

#include "wire/ctl_proto.h"

struct client;
struct sandbox;

/* Answers now or later. */
void sandbox_quiesce_request(struct sandbox *sandbox, struct client *client, const struct ctl_request *request,
                             struct frame *frame);

/* The client is going: what it holds goes on, and nothing leaves the delta unless that has begun. */
void sandbox_quiesce_lose_client(struct sandbox *sandbox, const struct client *client);

/* Ends soon, as if the owner had gone. */
void sandbox_quiesce_cancel(struct sandbox *sandbox);

/* The same, and waits for it. Before processes of the sandbox are waited for: they may be waiting for their files. */
void sandbox_quiesce_stop(struct sandbox *sandbox);

/* Between QUIESCE and the end: what waits for the fence's gate must not be done in the reactor. */
bool sandbox_quiesce_is_active(const struct sandbox *sandbox);
