/*
 * Confinement by bubblewrap: everything a sandbox is made of is in bwrap_args.h; here it is started, put into its cgroup and
 * ended. Works the same as root (the sandbox has a uid of its own, see identity.h) and as an ordinary user.
 */
#pragma once

#include "base/err.h"
#include "runtime/bwrap_probe.h"
#include "runtime/runtime.h"

/* With the host's bubblewrap (bwrap_probe_file). */
int bwrap_runtime_new(struct runtime **ret, struct err *err);

/* With another one, or as if it were another. `probe` is copied. */
struct runtime *bwrap_runtime_of_probe(const struct bwrap_probe *probe);
