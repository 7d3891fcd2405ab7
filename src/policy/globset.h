/*
 * Many globs matched against a name at once: a deterministic automaton over units, built as names come by.
 *
 * For the components that neither a hash nor a prefix or suffix walk can find. After warm-up a match costs one table look-up
 * per unit of the name, however many globs there are. The automaton takes its memory from a budget; once that is used up,
 * moves not yet built are computed afresh each time.
 *
 * Built by one thread (new, add, seal), then matched by any number.
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

/* Calls `on_match` with the target of every glob that matches, in no particular order. */
void globset_match(struct globset *set, const char *name, size_t len, globset_match_fn on_match, void *cookie);
