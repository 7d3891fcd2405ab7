/*
 * Relations between two patterns, decided on their languages and not on their looks.
 *
 * Both answers err on the safe side when a pair is too intricate to decide within a fixed budget of work:
 * pattern_contains() then says false ("not provably contained"), pattern_overlaps() true ("may overlap").
 */
#pragma once

#include <stdbool.h>

#include "policy/pattern.h"

/* Every path that `inner` matches, `outer` matches too. */
bool pattern_contains(const struct pattern *outer, const struct pattern *inner);

/* Some path matches both. */
bool pattern_overlaps(const struct pattern *a, const struct pattern *b);
