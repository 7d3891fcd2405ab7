/*
 * Tries what the workspace drivers need: `agentfense-supervisor --try DIR`. It mounts overlayfs as for a sandbox, over an empty
 * directory in DIR, and writes to it as a sandbox's user. The fence needs /dev/fuse. A copy works everywhere, by reference or
 * byte by byte. Prints the lines of wire/driver_trial.h to standard output and leaves nothing behind.
 */
#pragma once

#include "base/err.h"

/* Enters namespaces: call it before the first thread is created. */
int trial_run(const char *dir_path, struct err *err);
