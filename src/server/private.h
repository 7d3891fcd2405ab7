/*
 * The private server: the commands of this user start it for themselves when no server runs (call/lifeline.h: how they find
 * it).
 *
 * It is the same server without TCP, gRPC, TLS and tokens, only for processes of this user in these namespaces.
 * `private-server` is not for people: its caller passes a first lifeline and the locked lock file of the state directory as
 * descriptors.
 */
#pragma once

#include <signal.h>

#include "server/config.h"

#define PRIVATE_VERB "private-server"
#define PRIVATE_LIFELINE_FD 3
#define PRIVATE_LOCK_FD 4

/* Serves until no client has used it for a moment, or until a signal. Changes the configuration. Signals must be blocked. */
int private_serve(struct config *config, const sigset_t *signals, struct err *err);

/* Asks the private server of this state directory to end, so that another server can start, and waits a few seconds for that.
 * Returns 1; 0 if no private server runs; -EBUSY if it has clients. */
int private_give_way(const char *state_path);
