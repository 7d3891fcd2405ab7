/*
 * A command with processes of its own: what EXEC starts.
 *
 * It has ended when its first process has and its output is complete: when nobody holds the pipes any more, or, where something
 * it left in the background does, after a short grace. What is left behind goes on; what that prints is read and dropped.
 */
#pragma once

#include "base/err.h"
#include "supervisor/init_link.h"
#include "wire/ctl_proto.h"

struct client;
struct sandbox;

/* `stdin_fd` is borrowed; -1: none. The client hears STARTED or FINISHED of it, or the caller says why not. */
int command_start(struct sandbox *sandbox, struct client *client, uint64_t tag, const struct ctl_run *asked,
                  const struct ctl_command *wanted, int stdin_fd, struct err *err);

/* For process.h as well: asks init for it, with its environment and limits; `fds` are its 0, 1 and 2 unless it has a terminal. */
int command_spawn(struct sandbox *sandbox, struct task *task, const struct task_ops *ops, const struct ctl_run *asked,
                  const struct ctl_command *wanted, const int fds[3], struct err *err);

/* As a shell would say it: 127 for what is not there, 126 for what cannot be run. */
void command_describe_failure(struct ctl_finished *result, int error, enum init_step step);

/* The arguments as one line, no longer than `max` bytes. Free it. */
char *command_text(const char *const *argv, size_t max);
