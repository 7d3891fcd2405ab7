/*
 * What ruleset.c, match_state.c, explain.c and lint.c share.
 *
 * Lock order: ruleset.states_lock alone; globset and yield_memo locks are leaves and never held together.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "policy/atom.h"
#include "policy/budget.h"
#include "policy/ruleset.h"
#include "policy/trie.h"
#include "policy/verdict.h"

/* What the atoms that end at a trie node amount to. */
struct node_info {
    uint32_t accept_first, accept_count; /* into ruleset.accepts */
    int64_t top_class;                   /* highest class that ends here */
    int64_t grant_class_below;           /* highest class of a grant that one or more further components can reach */
    uint32_t best_order;                 /* of the grants of top_class */
    bool none_at_top;                    /* a `none` of top_class ends here */
    bool is_absorbing;                   /* a `**` at the end of its patterns: it matches for ever and leads nowhere else */
};

/* Places told apart by what they are: open addressing, replaced by a larger copy when half full. Readers take no lock: a
 * retired table stays allocated as long as the ruleset, and a place, once in, is never removed. */
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
    pthread_mutex_t states_lock; /* guards inserting into and replacing the table */
    _Atomic(struct match_state_table *) states;
    size_t state_count;       /* guarded by states_lock */
    struct match_state *root; /* owned */
};

/* A place is told by the trie nodes its path stands on and by what hides it from above; all else follows. */
struct match_state {
    _Atomic uint32_t refs;        /* 0: kept in the table, lives as long as the ruleset */
    _Atomic uint8_t shows_below;  /* enum known */
    _Atomic uint8_t writes_child; /* enum known */
    _Atomic uint8_t writes_all;   /* enum known */
    uint8_t level;
    uint32_t grant;      /* the atom that won, or NO_ATOM; what hides may still hide it */
    int64_t class;       /* of the rules that decided */
    int64_t above_class; /* of the strongest hider above; its rules in above[] */
    int64_t below_class; /* likewise for what lies beneath: the path's own hiders taken in */
    uint64_t hash;
    uint32_t node_count, above_count, below_count;
    uint32_t *nodes; /* these three lie in items[] */
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

/* Whether a grant shows a path although `hiding` hides what lies beneath. */
bool hiding_lets_through(const struct hiding *hiding, struct ruleset *rules, uint32_t grant);

/* What hides beneath a path: the hiding from above joined by the path's own verdict. `ret_atoms` has room for both. */
struct hiding hiding_join(const struct hiding *above, const struct verdict *own, uint32_t *ret_atoms);

/* What hides the children of a place. */
struct hiding match_state_hiding_below(const struct match_state *match);

/* The one place with these nodes and what hides from above, which it copies; to be unref'ed. */
struct match_state *match_state_get(struct ruleset *rules, struct node_set *nodes, const struct hiding *above);

struct match_state *match_state_root_new(struct ruleset *rules);
void match_state_table_free(struct match_state_table *table);
