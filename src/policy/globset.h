/*
 * Matches many globs against a name at once, by a deterministic automaton over units that is built while names are matched.
 *
 * It serves the components that neither a hash nor a prefix or suffix walk can find. After warm-up a match costs one table
 * look-up per unit of the name, however many globs there are. The automaton takes its memory from a budget. When that is used
 * up, transitions that are not yet built are computed again each time.
 *
 * One thread builds a globset (new, add, seal); then any number of threads may match.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "policy/budget.h"
#include "policy/glob.h"

struct globset;

typedef void (*globset_match_fn)(uint32_t target, void *cookie);

/* `budget` is borrowed and outlives the set. */
struct globset *globset_new(struct budget *budget);
void globset_free(struct globset *set);
DEFINE_AUTOPTR(globset, globset_free);

/* `glob` is borrowed and outlives the set. */
void globset_add(struct globset *set, const struct glob *glob, uint32_t target);
void globset_seal(struct globset *set);

/* Calls `on_match` with the target of each glob that matches, in no particular order. */
void globset_match(struct globset *set, const char *name, size_t len, globset_match_fn on_match, void *cookie);
