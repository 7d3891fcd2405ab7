/*
 * Starting a sandbox, with what that is at told on standard error while it takes its time: an image is fetched, for instance.
 */
#pragma once

#include "cli/api_verb.h"

/* StartSandbox. `*ret` is the sandbox, to be freed as client_ask() says. Told unless the call is quiet. */
int start_watched(struct api_call *call, const char *id, ProtobufCMessage **ret, struct err *err);
