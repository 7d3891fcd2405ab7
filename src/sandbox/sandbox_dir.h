/*
 * The directory of one sandbox (wire/sandbox_spec.h lists the files in it): who has locked it, and what it contains. All functions take the
 * open directory.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* A supervisor holds an exclusive flock(2) on <dir>/lock as long as it lives: the kernel releases it however the supervisor dies, and a
 * child that inherited the descriptor keeps it. A process that changes or removes a sandbox at rest takes the same lock. A process that
 * only tests the lock takes it shared for a moment, so this function retries for some milliseconds before it returns -EBUSY. */
int sandbox_dir_lock(int dir_fd, int *ret_fd);

/* Returns true if its supervisor lives. */
bool sandbox_dir_is_running(int dir_fd);

/* Asks its supervisor to end all its processes, and waits until they have ended. Returns 0 for a sandbox that does not run. `name` is for
 * errors. */
int sandbox_dir_stop(int dir_fd, const char *name, struct err *err);

/* Returns true while its delta is mounted, or read for a review. */
bool sandbox_dir_delta_is_locked(int dir_fd);

/* Returns true if its delta contains anything, or cannot be read. */
bool sandbox_dir_has_changes(int dir_fd);

/* Removes the mounts that an ended sandbox left on the host: its host mount (host_mount.h), and that of a container whose supervisor was
 * killed. Does nothing while its supervisor lives. */
void sandbox_dir_unmount_leftover(int dir_fd);

/* Returns true if its last supervisor ended on request, without failing or being killed. */
bool sandbox_dir_ended_well(int dir_fd);

/* What people decided about it. The file `decision` holds it, so it does not depend on a server's database. A deleted sandbox waits in the
 * trash: it is neither listed nor started, and can be restored for a while. Numbered as in the store. */
enum sandbox_dir_decision { SANDBOX_DIR_OPEN = 0, SANDBOX_DIR_APPROVED = 1, SANDBOX_DIR_REJECTED = 2 };

/* -ENOENT: the file does not exist yet. -EBADMSG. */
int sandbox_dir_read_decision(int dir_fd, enum sandbox_dir_decision *ret, bool *ret_is_deleted);
/* Durable. */
int sandbox_dir_write_decision(int dir_fd, enum sandbox_dir_decision decision, bool is_deleted);
/* Returns true for a sandbox in the trash. */
bool sandbox_dir_is_deleted(int dir_fd);
