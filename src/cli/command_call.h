/* Runs a command in a sandbox or a session over the API: prints its output as it arrives and returns its exit code. */
#pragma once

#include "cli/api_verb.h"
#include <google/protobuf/duration.pb-c.h>

/* Calls `stream` and prints the output as it arrives; with --json calls `unary` and prints its answer. `request` fits both methods; `timeout` is
 * its timeout field, or NULL. Returns the command's exit code, EXIT_TIMED_OUT after a timeout, or -errno. */
int command_call(struct api_call *call, const char *unary, const char *stream, const ProtobufCMessage *request,
                 const Google__Protobuf__Duration *timeout, struct err *err);

/* Joins the words after "--" into one line for a shell, quoted so that each arrives as typed. A single word is already a line. */
char *command_line(char *const *words);
