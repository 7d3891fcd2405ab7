/*
 * What boot.c needs before it makes anything: the user that the sandbox runs as, and the places in our mount namespace for its
 * fence and, if it is staged, its root.
 */
#pragma once

#include "base/err.h"

struct sandbox;

/* Sets sandbox->identity. */
int boot_allocate_identity(struct sandbox *sandbox, struct err *err);

/* Sets sandbox->base_fd to `inherited_fd`, which it takes, or opens the base by its name if that is -1. Opening the delta
 * checks for every driver that this is the directory the delta was made over (fence/delta.h). */
int boot_open_base(struct sandbox *sandbox, int inherited_fd, struct err *err);

/* Enters a mount namespace of our own, unless the mount must be visible on the host. */
int boot_enter_namespace(struct sandbox *sandbox, struct err *err);

/* Sets sandbox->mount_point and sandbox->stage, for the identity chosen before. The stage is open when this returns. */
int boot_choose_mount_point(struct sandbox *sandbox, struct err *err);
