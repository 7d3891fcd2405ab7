/* Questions about all paths below a state. */
#include "policy/ruleset_int.h"

static bool any_grant_passes(struct ruleset *rules, uint32_t node, const struct hiding *hiding)
{
    const struct node_info *info = &rules->infos[node];

    for (uint32_t i = 0; i < info->accept_count; i++) {
        uint32_t atom = rules->accepts[info->accept_first + i];
        if (rules->atoms.items[atom].level != LEVEL_NONE && hiding_lets_through(hiding, rules, atom))
            return true;
    }
    return false;
}

/* The node after `node` in a walk of all nodes below `top`. Without `deeper` the walk skips what is below `node`. */
static uint32_t next_below(const struct ruleset *rules, uint32_t top, uint32_t node, bool deeper)
{
    const struct trie_node *n = trie_node(rules->trie, node);

    if (deeper && n->first_child != TRIE_NIL)
        return n->first_child;
    while (n->sibling == TRIE_NIL && n->parent != top)
        n = trie_node(rules->trie, n->parent);
    return n->sibling;
}

/* Visits only parts that contain a grant of sufficient class. */
static bool grant_passes_below(struct ruleset *rules, uint32_t top, const struct hiding *hiding)
{
    uint32_t node = trie_node(rules->trie, top)->first_child;

    while (node != TRIE_NIL) {
        if (any_grant_passes(rules, node, hiding))
            return true;
        node = next_below(rules, top, node, rules->infos[node].grant_class_below >= hiding->class);
    }
    return false;
}

static bool find_shows_below(struct ruleset *rules, const struct match_state *match)
{
    struct hiding hiding = match_state_hiding_below(match);

    for (uint32_t i = 0; i < match->node_count; i++) {
        uint32_t node = match->nodes[i];
        if (rules->infos[node].grant_class_below < hiding.class || rules->infos[node].grant_class_below == ATOM_CLASS_NONE)
            continue;
        if (trie_node(rules->trie, node)->loops && any_grant_passes(rules, node, &hiding))
            return true;
        if (grant_passes_below(rules, node, &hiding))
            return true;
    }
    return false;
}

static bool node_writes(const struct ruleset *rules, uint32_t node, int64_t least_class)
{
    const struct node_info *info = &rules->infos[node];

    for (uint32_t i = 0; i < info->accept_count; i++) {
        const struct atom *atom = &rules->atoms.items[rules->accepts[info->accept_first + i]];
        if (atom->level == LEVEL_WRITE && atom->class >= least_class)
            return true;
    }
    return false;
}

/* The state of a child that no rule names: it represents all names but those. */
static struct match_state *step_unnamed(struct ruleset *rules, const struct match_state *match)
{
    struct hiding hiding = match_state_hiding_below(match);
    struct node_set nodes;

    node_set_init(&nodes);
    for (uint32_t i = 0; i < match->node_count; i++)
        trie_follow_unnamed(rules->trie, match->nodes[i], &nodes);
    struct match_state *unnamed = match_state_get(rules, &nodes, &hiding);
    node_set_done(&nodes);
    return unnamed;
}

/* For the children that rules name it is enough that a `write` is not outranked. */
static bool find_writes_child(struct ruleset *rules, const struct match_state *match)
{
    struct hiding hiding = match_state_hiding_below(match);
    autoptr(match_state) unnamed = step_unnamed(rules, match);

    if (match_state_level(unnamed) == LEVEL_WRITE)
        return true;

    int64_t least = unnamed->class > hiding.class ? unnamed->class : hiding.class;
    for (uint32_t i = 0; i < match->node_count; i++) {
        const struct trie_node *n = trie_node(rules->trie, match->nodes[i]);
        for (uint32_t child = n->first_child; child != TRIE_NIL; child = trie_node(rules->trie, child)->sibling) {
            uint32_t deeper = trie_node(rules->trie, child)->deeper;
            if (child == n->any || child == n->deeper)
                continue;
            if (node_writes(rules, child, least) || (deeper != TRIE_NIL && node_writes(rules, deeper, least)))
                return true;
        }
    }
    return false;
}

/* Returns true if an atom that is not `write` and could beat the `write` atom ends at the node. */
static bool node_restricts(const struct ruleset *rules, uint32_t node, const struct atom *write)
{
    const struct node_info *info = &rules->infos[node];

    for (uint32_t i = 0; i < info->accept_count; i++) {
        const struct atom *atom = &rules->atoms.items[rules->accepts[info->accept_first + i]];
        if (atom->level == LEVEL_WRITE || atom->class < write->class)
            continue;
        if (atom->class > write->class || atom->level == LEVEL_NONE || atom->order > write->order)
            return true;
    }
    return false;
}

static bool restricts_below(const struct ruleset *rules, uint32_t top, const struct atom *write)
{
    uint32_t node = trie_node(rules->trie, top)->first_child;

    while (node != TRIE_NIL && !node_restricts(rules, node, write))
        node = next_below(rules, top, node, true);
    return node != TRIE_NIL;
}

/* The states of names that no rule spells out soon repeat; the search ends at this depth. */
#define UNNAMED_DEPTH 32

/* The weakest of the `write` atoms that decide about unnamed descendants, or NULL if some of those are not `write`. */
static const struct atom *weakest_write_below(struct ruleset *rules, const struct match_state *match)
{
    struct match_state *at = step_unnamed(rules, match);
    const struct atom *weakest = NULL;
    bool is_absorbing = false;

    for (int depth = 0; depth < UNNAMED_DEPTH && match_state_level(at) == LEVEL_WRITE && !is_absorbing; depth++) {
        const struct atom *grant = &rules->atoms.items[at->grant];
        if (!weakest || grant->class < weakest->class || (grant->class == weakest->class && grant->order < weakest->order))
            weakest = grant;
        struct match_state *next = step_unnamed(rules, at);
        is_absorbing = next->hash == at->hash && next->node_count == at->node_count && next->grant == at->grant;
        match_state_unref(at);
        at = next;
    }
    match_state_unref(at);
    return is_absorbing ? weakest : NULL;
}

/* An atom that covers unnamed paths covers named ones too: all is `write` if no other atom that can match below beats it. */
static bool find_writes_all(struct ruleset *rules, const struct match_state *match)
{
    const struct atom *write = weakest_write_below(rules, match);

    for (uint32_t i = 0; write && i < match->node_count; i++) {
        uint32_t node = match->nodes[i];
        if ((trie_node(rules->trie, node)->loops && node_restricts(rules, node, write)) || restricts_below(rules, node, write))
            return false;
    }
    return write != NULL;
}

typedef bool (*find_fn)(struct ruleset *rules, const struct match_state *match);

/* Two threads may compute the same answer at once; they store the same value. */
static bool cached_answer(_Atomic uint8_t *slot, struct ruleset *rules, const struct match_state *match, find_fn find)
{
    uint8_t known = atomic_load_explicit(slot, memory_order_relaxed);

    if (known == TRISTATE_UNKNOWN) {
        known = find(rules, match) ? TRISTATE_YES : TRISTATE_NO;
        atomic_store_explicit(slot, known, memory_order_relaxed);
    }
    return known == TRISTATE_YES;
}

bool ruleset_may_show_below(struct ruleset *rules, const struct match_state *match)
{
    return cached_answer(&((struct match_state *) match)->shows_below, rules, match, find_shows_below);
}

bool ruleset_may_write_child(struct ruleset *rules, const struct match_state *match)
{
    return cached_answer(&((struct match_state *) match)->writes_child, rules, match, find_writes_child);
}

bool ruleset_writes_all_below(struct ruleset *rules, const struct match_state *match)
{
    return cached_answer(&((struct match_state *) match)->writes_all, rules, match, find_writes_all);
}
