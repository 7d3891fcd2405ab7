/*
 * A directory mounted once more, in our mount namespace, with what belongs to its owner belonging to the sandbox's user.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Always without set-user-ID and devices; `attrs` are more MOUNT_ATTR_*. `from` and `to` may be one directory. */
int bind_as(const char *from, const char *to, uid_t uid, gid_t gid, uint64_t attrs, struct err *err);

/* The same of a directory that is open, in our mount namespace; `name` is what it is called in errors. */
int bind_fd_as(int from_fd, const char *name, const char *to, uid_t uid, gid_t gid, uint64_t attrs, struct err *err);
void bind_undo(const char *at);
