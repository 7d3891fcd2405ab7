/*
 * A sandbox's root, built before bwrap binds it as a whole.
 *
 * bwrap reads the table of all mounts for each bind mount, and nothing else can proceed meanwhile: this was the last thing a
 * start waited for. The same steps made here take a fifth of the time, while bwrap is still being loaded. They need a mount
 * namespace of the caller's own, and Linux 5.12; otherwise bwrap builds the root itself.
 */
#pragma once

#include "base/err.h"
#include "runtime/bwrap_args.h"
#include "runtime/runtime_spec.h"

/* The workspace's place on a stage, where there is an empty directory. */
#define STAGE_WORKSPACE RUNTIME_WORKSPACE

/* Mounts an empty root on `path`, a directory that the user `uid` can reach. Sets the process's umask to 0. Returns 0, or a
 * negative errno with nothing mounted if that is impossible here. */
int stage_open(const char *path, uid_t uid, gid_t gid);

/* Performs the staged operations in the open stage spec->stage. Operations that only bwrap can perform become unstaged. The
 * root is read-only when this returns. */
int stage_build(const struct runtime_spec *spec, struct bwrap_args *args, struct err *err);
