/*
 * Relations between two patterns, decided by the sets of paths that they match and not by their text.
 *
 * A pair that is too complex to decide within a fixed amount of work gets the answer that shows less: pattern_contains()
 * returns false, pattern_overlaps() true.
 */
#pragma once

#include <stdbool.h>

#include "policy/pattern.h"

/* Returns true if `outer` matches every path that `inner` matches. */
bool pattern_contains(const struct pattern *outer, const struct pattern *inner);

/* Returns true if some path may match both. */
bool pattern_overlaps(const struct pattern *a, const struct pattern *b);
