/*
 * A sandbox's root, built before bwrap binds it as a whole.
 *
 * For each thing that it binds, bwrap reads the table of all mounts, and while it does nothing else can go on: of all that a
 * start waits for it is the last. The same steps made here cost a fifth of that, and are made while bwrap is still being
 * loaded. It needs a mount namespace that is the caller's own, and Linux 5.12; without, bwrap builds the root by itself.
 */
#pragma once

#include "base/err.h"
#include "runtime/bwrap_args.h"
#include "runtime/runtime_spec.h"

/* Where the workspace belongs in a stage, which has an empty directory there. */
#define STAGE_WORKSPACE RUNTIME_WORKSPACE

/* Mounts an empty root on `path`, a directory that whoever runs as `uid` can reach. From here on this process has no umask.
 * Returns 0, or a negative errno where that is not possible here; nothing is mounted then. */
int stage_open(const char *path, uid_t uid, gid_t gid);

/* Performs the staged operations in spec->stage, which was opened. What turns out to be bwrap's to do is not staged any more. The
 * root is read-only when it returns. */
int stage_build(const struct runtime_spec *spec, struct bwrap_args *args, struct err *err);
