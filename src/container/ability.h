/*
 * Which limits an engine can enforce on this host. What it cannot, it leaves out with a warning nobody reads; a limit that somebody
 * asked for is refused instead.
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
int ability_ask(struct engine *engine, struct ability *ret, struct err *err);

/* -ENOTSUP with the reason. A pids limit that nobody asked for is only a default. */
int ability_check(const struct ability *ability, const struct runtime_limits *limits, struct err *err);
