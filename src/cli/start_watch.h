/*
 * Starts a sandbox and prints on standard error what a slow start is doing, for instance pulling an image.
 */
#pragma once

#include "cli/api_verb.h"

/* Calls StartSandbox. The caller frees `*ret`, the sandbox, as it does after client_ask(). Prints no progress if the call is quiet. */
int start_watched(struct api_call *call, const char *id, ProtobufCMessage **ret, struct err *err);
