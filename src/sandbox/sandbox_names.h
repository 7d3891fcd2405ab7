/*
 * Maps names to sandboxes.
 *
 * A claim is a file <state>/names/<owner>/<name> that contains the id. It is created before the sandbox's directory gets its final name,
 * and removed after the directory has lost that name, so the claim on a sandbox's name exists as long as the sandbox does. A claim whose id
 * has no directory was left by a crash, and its name is free. "-" stands for the owner "", the administrator.
 *
 * Names are assigned under a lock on the directory `names`. The caller holds it from the claim until the directory is in its place.
 */
#pragma once

#include "sandbox/state_dir.h"
#include "wire/sandbox_spec.h"

/* Waits for the lock. Close the descriptor to release it. */
int sandbox_names_lock(const struct state_dir *state_dir, int *ret_lock_fd, struct err *err);

/* With the lock. -EEXIST when another sandbox has the name. Without `lasts` it does not wait for the disk. */
int sandbox_names_claim(const struct state_dir *state_dir, const char *owner, const char *name, const char *id, bool lasts,
                        struct err *err);

/* With the lock. The same for an administrator's sandbox whose directory has that name (state_dir_convert.c). */
int sandbox_names_take_over(const struct state_dir *state_dir, const char *name, const char *id, struct err *err);

/* With the lock. Does nothing if another sandbox has the name. */
void sandbox_names_release(const struct state_dir *state_dir, const char *owner, const char *name, const char *id);

/* Returns the id of the sandbox with this name. -ENOENT. */
int sandbox_names_find(const struct state_dir *state_dir, const char *owner, const char *name, char ret_id[SANDBOX_ID_MAX]);

/* Returns the name that the owner's sandbox has by a claim, for a sandbox whose spec cannot be read. -ENOENT. */
int sandbox_names_find_id(const struct state_dir *state_dir, const char *owner, const char *id,
                          char ret_name[SANDBOX_NAME_MAX]);
