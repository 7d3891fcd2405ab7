/*
 * The limits that an engine can enforce on this host, and its OCI runtimes. The engine only warns about a limit that it cannot
 * enforce, and nobody reads that; we refuse a requested limit instead.
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

/* Reads the engine's description of itself. */
void engine_caps_read(const json_t *info, struct engine_caps *ret);

/* -ENOENT, with the names of the available ones. "" is the engine's choice. A name like that of a containerd shim
 * ("io.containerd.x.v1") is accepted, because the engine may find it without configuration. */
int engine_caps_check_runtime(const json_t *info, const char *oci_runtime, struct err *err);

/* Asks the engine and does both. */
int engine_caps_query(struct engine *engine, const char *oci_runtime, struct engine_caps *ret, struct err *err);

/* -ENOTSUP with the reason. A pids limit that was not requested is only a default. */
int engine_caps_check(const struct engine_caps *caps, const struct runtime_limits *limits, struct err *err);
