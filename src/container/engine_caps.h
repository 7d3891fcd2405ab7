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

struct engine_caps {
    bool memory, swap, cpu_quota, cpu_shares, pids;
};

/* Of its description of itself. */
void engine_caps_read(const json_t *info, struct engine_caps *ret);

/* -ENOENT, with the names of those it has. "" is its own choice; one that is called like a shim of containerd's ("io.containerd.x.v1") it
 * may find without having been told of it. */
int engine_caps_check_runtime(const json_t *info, const char *oci_runtime, struct err *err);

/* Both, of the engine itself. */
int engine_caps_query(struct engine *engine, const char *oci_runtime, struct engine_caps *ret, struct err *err);

/* -ENOTSUP with the reason. A pids limit that nobody asked for is only a default. */
int engine_caps_check(const struct engine_caps *caps, const struct runtime_limits *limits, struct err *err);
