/*
 * The inside of a ruleset, for ruleset.c, match_state.c, explain.c and lint.c.
 *
 * Lock order: ruleset.states_lock, then the lock of a yield_memo or globset. Those two are leaves and never held together.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "policy/atom.h"
#include "policy/budget.h"
#include "policy/ruleset.h"
#include "policy/trie.h"
#include "policy/verdict.h"

/* Summary of the atoms that end at a trie node. */
struct node_info {
    uint32_t accept_first, accept_count; /* into ruleset.accepts */
    int64_t top_class;                   /* highest class of an atom that ends here */
    int64_t grant_class_below;           /* highest class of a grant that further components can reach */
    uint32_t best_order;                 /* highest order among the grants of top_class */
    bool none_at_top;                    /* a `none` atom of top_class ends here */
    bool is_absorbing; /* a `**` at the end of its patterns: it matches whatever follows and leads nowhere else */
};

/* All states, by content: open addressing, replaced by a larger copy when half full. Readers take no lock: a retired table
 * stays allocated as long as the ruleset, and a state is never removed. */
struct match_state_table {
    struct match_state_table *retired; /* owned: the smaller table before this one */
    size_t cap;                        /* power of two */
    _Atomic(struct match_state *) states[];
};

struct ruleset {
    _Atomic uint32_t refs;
    struct rule_list rules; /* owned copy */
    struct atom_list atoms; /* owned */
    struct trie *trie;      /* owned; borrows patterns from atoms */
    struct node_info *infos;
    uint32_t *accepts;
    struct yield_memo *memo;
    struct budget budget;
    pthread_mutex_t states_lock; /* guards adding states and replacing the table */
    _Atomic(struct match_state_table *) states;
    size_t state_count;       /* guarded by states_lock */
    struct match_state *root; /* owned */
};

/* A state is identified by the trie nodes that its path has reached and by what hides it from above; all else follows from
 * these. */
struct match_state {
    _Atomic uint32_t refs;        /* 0: kept in the table, lives as long as the ruleset */
    _Atomic uint8_t shows_below;  /* enum tristate */
    _Atomic uint8_t writes_child; /* enum tristate */
    _Atomic uint8_t writes_all;   /* enum tristate */
    uint8_t level;
    uint32_t grant;      /* the candidate, or NO_ATOM; a `none` may still hide the path */
    int64_t class;       /* of the atoms that decided */
    int64_t above_class; /* class of the strongest hider above, whose atoms are above[] */
    int64_t below_class; /* the same for what lies beneath: includes the hiders of the path itself */
    uint64_t hash;
    uint32_t node_count, above_count, below_count;
    uint32_t *nodes; /* these three point into items[] */
    uint32_t *above;
    uint32_t *below;
    uint32_t items[];
};

enum tristate {
    TRISTATE_UNKNOWN,
    TRISTATE_NO,
    TRISTATE_YES,
};

struct hiding {
    int64_t class;
    const uint32_t *atoms; /* `none` atoms of that class, sorted */
    uint32_t count;
};

/* Returns true if a grant shows a path beneath what `hiding` hides. */
bool hiding_lets_through(const struct hiding *hiding, struct ruleset *rules, uint32_t grant);

/* Joins the hiding from above with the path's own verdict: what hides beneath the path. `ret_atoms` has room for both. */
struct hiding hiding_join(const struct hiding *above, const struct verdict *own, uint32_t *ret_atoms);

/* What hides the children of a state. */
struct hiding match_state_hiding_below(const struct match_state *match);

/* Returns a reference to the state with these nodes and this hiding from above, which it copies. */
struct match_state *match_state_get(struct ruleset *rules, struct node_set *nodes, const struct hiding *above);

struct match_state *match_state_root_new(struct ruleset *rules);
void match_state_table_free(struct match_state_table *table);
