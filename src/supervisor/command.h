/*
 * A command with processes of its own: what EXEC starts.
 *
 * It has ended when its first process has and its output is complete: when nobody holds the pipes any more, or, where something
 * it left in the background does, after a short grace. What is left behind goes on; what that prints is read and dropped.
 *
 * With CTL_RUN_LOGGED it is a process in the background as well (process.h): its output, of both streams as it comes, goes to a log too,
 * and its client may leave.
 */
#pragma once

#include "base/err.h"
#include "wire/ctl_proto.h"

struct client;
struct sandbox;

/* `stdin_fd` is borrowed; -1: none. The client hears STARTED or FINISHED of it, or the caller says why not. It stays with one that is logged
 * only where there is a terminal. */
int command_start(struct sandbox *sandbox, struct client *client, uint64_t tag, const struct ctl_run *asked,
                  const struct ctl_command *wanted, int stdin_fd, struct err *err);
