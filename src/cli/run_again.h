/*
 * `agentfense run --in NAME` with options changes the spec of an existing sandbox: the network, the mounts and the limits given replace those of the
 * spec. The new mounts replace all old ones.
 */
#pragma once

#include "cli/run_options.h"

/* Changes the spec of a stopped sandbox, under its lock, if an option asks for it. `*ret_before` gets the old spec, or NULL if nothing changed.
 * -EBUSY: the sandbox is running. */
int run_again_change(const struct run_options *options, int dir_fd, const char *name, struct sandbox_spec **ret_before,
                     struct err *err);

/* Restores the old spec, after a start with the new one failed. */
void run_again_restore(int dir_fd, const struct sandbox_spec *before);

/* Sets the error for a sandbox that cannot be run in again now, with advice. */
int run_refuse_running(const char *name, struct err *err);
int run_refuse_deleted(const char *name, struct err *err);
