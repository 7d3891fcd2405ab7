/*
 * A running sandbox's files on the host, at <dir>/mnt of its directory.
 *
 * A supervisor mounts the files in a mount namespace of its own. For programs of the host the server attaches a second mount of the same
 * file system here, which takes root. It does not outlive the sandbox: whoever ends one, or finds one that has ended, takes it away.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Where it is, in a sandbox's directory. */
#define HOST_MOUNT_DIR "mnt"

/* Its supervisor runs, and has answered a request since the sandbox does: then its state file says where the files are. */
int host_mount_show(int sandbox_dir_fd, struct err *err);

/* Takes the mount away, and the directory that root has for it. Nothing to do where there is none. */
void host_mount_hide(int sandbox_dir_fd);

/* Asks nobody but the kernel, so a supervisor that hangs does not make the caller hang. */
bool host_mount_is_shown(int sandbox_dir_fd);
