/*
 * Authenticates callers.
 *
 * A caller with a token acts as the token's owner, from anywhere. Without a token, the gate admits the user who runs the server and those whom the
 * configuration names, as administrators: over a unix socket, whose peer the kernel reports, or over loopback, where sock_diag names the owner of the
 * client's socket. The uid alone proves nothing, because a sandbox of an ordinary user has that user's uid, so the process must also be in the server's
 * own user and pid namespaces (peer_check_process()). The gate refuses everybody else, and requests of web pages without a token.
 */
#pragma once

#include "api/api.h"
#include "call/call.h"

/* Sets the call's owner, is_admin and allowed_roots. ERR_UNAUTHENTICATED. */
int gate_pass(const struct api *api, struct call *call, struct err *err);
