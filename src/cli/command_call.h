/* A command in a sandbox or a session, by the API: its output as it comes, its exit code as ours. */
#pragma once

#include "cli/api_verb.h"
#include <google/protobuf/duration.pb-c.h>

/* Calls `stream` and passes the output on; with --json, `unary`, and prints its answer. Returns the command's exit code, EXIT_TIMED_OUT when its time
 * was up, or -errno. `request` is that of either, `timeout` what it says of its time; NULL: nothing. */
int command_call(struct api_call *call, const char *unary, const char *stream, const ProtobufCMessage *request,
                 const Google__Protobuf__Duration *timeout, struct err *err);

/* The words after "--" as the one line that a shell runs: each arrives as it was typed. A single word is a line already. */
char *command_line(char *const *words);
