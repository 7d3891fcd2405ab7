/*
 * What the drivers of workspaces need, tried: `agentfense-supervisor --try DIR`. Overlayfs is mounted as it would be for a sandbox, over
 * an empty directory in DIR, and written to as a sandbox's user would; the fence needs /dev/fuse; a copy works anywhere, by reference or byte by byte.
 * The lines of wire/driver_trial.h go to standard output. Nothing is left.
 */
#pragma once

#include "base/err.h"

/* To be called before the first thread: it enters namespaces. */
int trial_run(const char *dir_path, struct err *err);
