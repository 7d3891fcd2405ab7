/*
 * Which limits an engine can enforce on this host, and which OCI runtimes it has. What it cannot enforce, it leaves out with a warning
 * nobody reads; a limit that somebody asked for is refused instead.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "container/engine.h"
#include "runtime/runtime_spec.h"

struct ability {
    bool memory, swap, cpu_quota, cpu_shares, pids;
};

/* Of its description of itself. */
void ability_read(const json_t *info, struct ability *ret);

/* -ENOENT, with the names of those it has. "" is its own choice; one that is called like a shim of containerd's ("io.containerd.x.v1") it
 * may find without having been told of it. */
int ability_check_runtime(const json_t *info, const char *oci_runtime, struct err *err);

/* Both, of the engine itself. */
int ability_ask(struct engine *engine, const char *oci_runtime, struct ability *ret, struct err *err);

/* -ENOTSUP with the reason. A pids limit that nobody asked for is only a default. */
int ability_check(const struct ability *ability, const struct runtime_limits *limits, struct err *err);
