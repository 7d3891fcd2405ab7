/*
 * A command with processes of its own, started by EXEC.
 *
 * A command has ended when its first process has ended and its output is complete, that is, when no process holds its pipes. If
 * a background process still holds them, it has ended after a short grace; that process goes on, and its output is read and
 * dropped.
 *
 * With CTL_RUN_LOGGED the command is also a background process (process.h): the output of both streams goes to one log, and its
 * client may leave.
 */
#pragma once

#include "base/err.h"
#include "wire/ctl_proto.h"

struct client;
struct sandbox;

/* `stdin_fd` is borrowed; -1: none. On success the client gets STARTED or FINISHED; on failure the caller reports the error.
 * A logged command keeps its client only if it has a terminal. */
int command_start(struct sandbox *sandbox, struct client *client, uint64_t tag, const struct ctl_run *asked,
                  const struct ctl_command *wanted, int stdin_fd, struct err *err);
