/*
 * Opening a sandbox that somebody else may have made, for a server.
 *
 * A server that serves what it finds in a state directory starts supervisors with what a spec says: mounts of any directory of the host, its
 * network, a project to write into. So it takes a sandbox only from its own user: the directory and the spec belong to that user and nobody
 * else can write them. Everything is opened beneath the state directory without following links (openat2), and the spec is read from the file
 * that was checked.
 */
#pragma once

#include <sys/types.h>

#include "sandbox/state_dir.h"

/* `id` is what the directory is called; the spec must say the same. -EPERM, with what is wrong, for one that is not to be trusted. */
int sandbox_trust_open(const struct state_dir *state_dir, const char *id, uid_t uid, int *ret_dir_fd,
                       struct sandbox_spec **ret_spec, struct err *err);
