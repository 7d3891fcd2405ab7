/*
 * Confinement by bubblewrap: starts it, puts it into its cgroup and ends it. bwrap_args.h describes what a sandbox consists of.
 * Works the same way for root, where the sandbox has its own uid (identity.h), and for an ordinary user.
 */
#pragma once

#include "base/err.h"
#include "runtime/bwrap_probe.h"
#include "runtime/runtime.h"

/* Uses the host's bubblewrap (bwrap_probe_file()). */
int bwrap_runtime_new(struct runtime **ret, struct err *err);

/* Uses the bubblewrap that `probe` describes, which is copied. */
struct runtime *bwrap_runtime_of_probe(const struct bwrap_probe *probe);
