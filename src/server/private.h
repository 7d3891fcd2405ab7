/*
 * The private server: the one that the verbs of this user start for themselves when no server runs (call/lifeline.h says how they find it).
 *
 * It is the same server as any, without TCP, gRPC, TLS and tokens, for processes of this user in these namespaces only. `private-server` is not
 * for people: it is started with a first lifeline and the locked lock of the state directory as descriptors.
 */
#pragma once

#include <signal.h>

#include "server/config.h"

#define PRIVATE_VERB "private-server"
#define PRIVATE_LIFELINE_FD 3
#define PRIVATE_LOCK_FD 4

/* Serves until it was unused for a moment, or a signal ends it. Changes the configuration. Signals must be blocked. */
int private_serve(struct config *config, const sigset_t *signals, struct err *err);

/* Asks the private server of this state directory to end, so that another server can start, and waits a few seconds until it has. Returns 1; 0 if
 * there is none; -EBUSY if it has clients. */
int private_give_way(const char *state_path);
