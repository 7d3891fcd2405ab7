/*
 * Who a sandbox runs as, and where in our mount namespace its fence, and its root if that is staged, are mounted: what boot.c needs
 * before it makes anything.
 */
#pragma once

#include "base/err.h"

struct sandbox;

/* sandbox->identity. */
int boot_allocate_identity(struct sandbox *sandbox, struct err *err);

/* sandbox->base_fd: `inherited_fd`, which is taken, or -1 and it is opened by its name. Whether it is the directory that the delta was made
 * over is checked by who opens the delta (fence/delta.h), for every driver. */
int boot_open_base(struct sandbox *sandbox, int inherited_fd, struct err *err);

/* Our own mount namespace; none where the mount has to be the host's. */
int boot_enter_namespace(struct sandbox *sandbox, struct err *err);

/* sandbox->mount_point and sandbox->stage, for the identity that was taken. A stage is open when it returns. */
int boot_choose_mount_point(struct sandbox *sandbox, struct err *err);
