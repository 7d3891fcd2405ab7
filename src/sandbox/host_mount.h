/*
 * A running sandbox's files on the host, at <dir>/mnt of its directory.
 *
 * A supervisor mounts the files in its own mount namespace. For programs on the host, the server attaches a second mount of the same file
 * system at <dir>/mnt, which needs root. This mount does not outlive the sandbox: the server that ends a sandbox, or finds one that has
 * ended, removes it.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Relative to a sandbox's directory. */
#define HOST_MOUNT_DIR "mnt"

/* Call it only while the supervisor runs and after it has answered a request: only then does its state file contain the path of the files. */
int host_mount_show(int sandbox_dir_fd, struct err *err);

/* Removes the mount and root's directory for it. Does nothing without a mount. */
void host_mount_hide(int sandbox_dir_fd);

/* Asks only the kernel, so a supervisor that hangs does not block the caller. */
bool host_mount_is_shown(int sandbox_dir_fd);
