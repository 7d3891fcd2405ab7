/*
 * `agentfense run --in NAME` with options: what a sandbox that exists is to have from now on. The network, the mounts and the limits that were
 * given replace what its spec says; mounts replace all of its mounts.
 */
#pragma once

#include "cli/run_options.h"

/* Changes the spec of a sandbox at rest, under its lock, when there is an option that does. `*ret_before` is what the spec said, or NULL when it
 * is as it was. -EBUSY: it runs. */
int run_again_change(const struct run_options *options, int dir_fd, const char *name, struct sandbox_spec **ret_before,
                     struct err *err);

/* Puts it back: the sandbox cannot be started with what was asked for. */
void run_again_restore(int dir_fd, const struct sandbox_spec *before);

/* Refusals of a sandbox that cannot be run in again now, with what can be done. */
int run_refuse_running(const char *name, struct err *err);
int run_refuse_deleted(const char *name, struct err *err);
