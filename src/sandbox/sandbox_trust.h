/*
 * Opens a sandbox that another user may have made, for a server.
 *
 * A server that serves the sandboxes it finds in a state directory starts supervisors with the contents of a spec: mounts of any host
 * directory, the host's network, a project to write to. So it accepts a sandbox only from its own user: that user must own the directory
 * and the spec, and no other user may be able to write them. Everything is opened beneath the state directory without following links
 * (openat2), and the spec is read from the file that was checked.
 */
#pragma once

#include <sys/types.h>

#include "sandbox/state_dir.h"

/* `id` is the name of the directory; the spec must contain the same id. -EPERM, with the reason, for a sandbox that must not be trusted. Another
 * error with `ret_dir_fd` set: the directory belongs to this user, but its spec cannot be read. */
int sandbox_trust_open(const struct state_dir *state_dir, const char *id, uid_t uid, int *ret_dir_fd,
                       struct sandbox_spec **ret_spec, struct err *err);
