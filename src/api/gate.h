/*
 * Who gets in.
 *
 * Who presents a token is its owner, wherever they are. Without one a local user gets in whom the configuration names, or who runs the
 * server, and that one may do everything: by a unix socket, whose other end the kernel vouches for, or over loopback, where
 * the kernel is asked whose socket it is. So neither another user of the host gets in, nor a sandbox that shares its network, since
 * that runs under a uid of its own. Everybody else is refused.
 */
#pragma once

#include "api/api.h"
#include "call/call.h"

/* Fills in the call's owner. ERR_UNAUTHENTICATED. */
int gate_pass(const struct api *api, struct call *call, struct err *err);
