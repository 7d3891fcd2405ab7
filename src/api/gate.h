/*
 * Who gets in.
 *
 * Who presents a token is its owner, wherever they are. Without one a local user gets in whom the configuration names, or who runs the
 * server, and that one may do everything: by a unix socket, whose other end the kernel vouches for, or over loopback, where
 * the kernel is asked whose socket it is. The uid alone is not enough, because a sandbox of an ordinary user has that user's: the process must be in
 * the server's own user and pid namespaces (peer_check_process()). Requests of web pages never get in without a token. Everybody else is refused.
 */
#pragma once

#include "api/api.h"
#include "call/call.h"

/* Fills in the call's owner. ERR_UNAUTHENTICATED. */
int gate_pass(const struct api *api, struct call *call, struct err *err);
