/*
 * Bind mounts in our mount namespace that show the files of their owner as the sandbox user's.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Every such mount is nosuid and nodev; `attrs` adds more MOUNT_ATTR_*. `from` and `to` may be the same directory. */
int bind_as(const char *from, const char *to, uid_t uid, gid_t gid, uint64_t attrs, struct err *err);

/* Like bind_as(), for an open directory of our mount namespace. `name` is its name for error messages. */
int bind_fd_as(int from_fd, const char *name, const char *to, uid_t uid, gid_t gid, uint64_t attrs, struct err *err);
void bind_undo(const char *at);
