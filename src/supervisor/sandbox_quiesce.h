/*
 * Quiesces the sandbox's files for a client (QUIESCE, REVERT, RELEASE of wire/ctl_proto.h). A thread closes the fence's gate
 * and opens it again; without a fence it freezes and thaws the sandbox's processes, and nothing can be reverted.
 *
 *     none ──QUIESCE──▶ closing ──▶ held ──RELEASE, limit, client gone, sandbox_stop()──▶ releasing ──▶ none
 *
 * A client cannot stop a sandbox for longer than its limit, whatever happens to it.
 */
#pragma once

#include <stdbool.h>

#include "wire/ctl_proto.h"

struct client;
struct sandbox;

/* Answers now or later, unless it fails. */
int sandbox_quiesce_request(struct sandbox *sandbox, struct client *client, const struct ctl_request *request,
                            struct frame *frame, struct err *err);

/* The client goes: its quiesce ends, and nothing is reverted unless that has begun. */
void sandbox_quiesce_lose_client(struct sandbox *sandbox, const struct client *client);

/* Ends the quiesce soon, as if its client had gone. */
void sandbox_quiesce_cancel(struct sandbox *sandbox);

/* Like sandbox_quiesce_cancel(), and waits for the end. Call it before waiting for processes of the sandbox, which may wait
 * for their files. */
void sandbox_quiesce_stop(struct sandbox *sandbox);

/* True between QUIESCE and its end: the reactor must not do anything that waits for the fence's gate. */
bool sandbox_quiesce_is_active(const struct sandbox *sandbox);
