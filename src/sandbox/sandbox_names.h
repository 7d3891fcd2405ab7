/*
 * Which sandbox has which name.
 *
 * A claim is a file <state>/names/<owner>/<name> that holds the id. It is made before the sandbox's directory gets its own name and
 * removed after that has lost it, so no sandbox is ever without the claim on its name. A claim whose id has no directory is free: a crash left it.
 * "-" stands for the owner "", who is the administrator.
 *
 * Names are given away under a lock on the directory `names`, which the caller holds from the claim until the directory is in its place.
 */
#pragma once

#include "sandbox/state_dir.h"
#include "wire/sandbox_spec.h"

/* Waits for it. Close it to release it. */
int sandbox_names_lock(const struct state_dir *state_dir, int *ret_lock_fd, struct err *err);

/* With the lock. -EEXIST when another sandbox has the name. A claim that need not last yet is made without waiting for the disk. */
int sandbox_names_claim(const struct state_dir *state_dir, const char *owner, const char *name, const char *id, bool lasts,
                        struct err *err);

/* With the lock. The same for a sandbox of the administrator's whose directory has that name (state_dir_convert.c). */
int sandbox_names_take_over(const struct state_dir *state_dir, const char *name, const char *id, struct err *err);

/* With the lock. Nothing happens if another sandbox has the name. */
void sandbox_names_release(const struct state_dir *state_dir, const char *owner, const char *name, const char *id);

/* The id of the sandbox that has the name. -ENOENT. */
int sandbox_names_find(const struct state_dir *state_dir, const char *owner, const char *name, char ret_id[SANDBOX_ID_MAX]);

/* The name that a sandbox of the owner has by a claim, for one whose spec cannot be read. -ENOENT. */
int sandbox_names_find_id(const struct state_dir *state_dir, const char *owner, const char *id,
                          char ret_name[SANDBOX_NAME_MAX]);
