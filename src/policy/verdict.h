/*
 * Decides which of the rules that match a path wins. The compiled ruleset and explanations both use it.
 *
 * Of the matching atoms only those of the highest class count. The most specific of its grants is the candidate. A `none` hides
 * the path unless the candidate is provably contained in it; of two with the same paths the later wins.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/atom.h"

#define NO_ATOM UINT32_MAX

struct verdict {
    int64_t class;    /* ATOM_CLASS_NONE: no rule matched */
    uint32_t grant;   /* the candidate, or NO_ATOM */
    uint32_t *hiders; /* owned; the `none` atoms that hide the path, sorted; empty: the grant wins */
    size_t hider_count;
};

/* Decides whether a `none` atom yields to a grant, and caches the answers. */
struct yield_memo;

struct yield_memo *yield_memo_new(const struct atom_list *atoms);
void yield_memo_free(struct yield_memo *memo);
DEFINE_AUTOPTR(yield_memo, yield_memo_free);

/* Returns true if the `none` atom yields to a grant of its own class. Thread-safe. */
bool yield_memo_yields(struct yield_memo *memo, uint32_t none, uint32_t grant);

/* `matching` are indexes of atoms in any order. */
void verdict_init(struct verdict *verdict, const struct atom_list *atoms, struct yield_memo *memo, const uint32_t *matching,
                  size_t count);
void verdict_done(struct verdict *verdict);
