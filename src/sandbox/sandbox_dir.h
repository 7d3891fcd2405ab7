/*
 * The directory of one sandbox (wire/sandbox_spec.h lists what is in it): who has it, and what is left in it. All functions take the open
 * directory.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* A supervisor holds <dir>/lock by an exclusive flock(2) as long as it lives: the kernel lets go of it however it dies, and a child
 * that inherited the descriptor keeps it. Whoever changes or removes a sandbox at rest holds it likewise. Somebody who only asks whether
 * it is held takes it shared for a moment, so this tries for some milliseconds before it returns -EBUSY. */
int sandbox_dir_lock(int dir_fd, int *ret_fd);

/* Whether its supervisor lives. */
bool sandbox_dir_is_running(int dir_fd);

/* Asks its supervisor to end what runs in it, and waits until nothing does. One that does not run is fine. `name` is for errors. */
int sandbox_dir_stop(int dir_fd, const char *name, struct err *err);

/* Whether its delta is mounted, or read for a review. */
bool sandbox_dir_delta_is_locked(int dir_fd);

/* Whether its delta holds anything. What cannot be looked at counts as something. */
bool sandbox_dir_has_changes(int dir_fd);

/* Unmounts from the host what a sandbox that has ended left mounted: a container's supervisor that was killed leaves it, and host_mount.h.
 * Nothing to do while its supervisor lives. */
void sandbox_dir_unmount_leftover(int dir_fd);

/* Returns true if its last supervisor was asked to end, and did: neither failed nor was killed. */
bool sandbox_dir_ended_well(int dir_fd);

/* What people decided about it, in the file `decision`: so whoever has the directory knows it, whatever becomes of a server's database. A
 * deleted sandbox waits in the trash: it is neither listed nor started, and can be restored for a while. Numbered as in the store. */
enum sandbox_dir_decision { SANDBOX_DIR_OPEN = 0, SANDBOX_DIR_APPROVED = 1, SANDBOX_DIR_REJECTED = 2 };

/* -ENOENT: nobody has written it yet. -EBADMSG. */
int sandbox_dir_read_decision(int dir_fd, enum sandbox_dir_decision *ret, bool *ret_is_deleted);
/* Durable. */
int sandbox_dir_write_decision(int dir_fd, enum sandbox_dir_decision decision, bool is_deleted);
/* Returns true for a sandbox in the trash. */
bool sandbox_dir_is_deleted(int dir_fd);
