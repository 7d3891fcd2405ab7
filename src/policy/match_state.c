#include "policy/ruleset_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

bool hiding_lets_through(const struct hiding *hiding, struct ruleset *rules, uint32_t grant)
{
    int64_t class = rules->atoms.items[grant].class;

    if (class != hiding->class)
        return class > hiding->class;
    for (uint32_t i = 0; i < hiding->count; i++) {
        if (!yield_memo_yields(rules->memo, hiding->atoms[i], grant))
            return false;
    }
    return true;
}

/* Merges two sorted lists and drops duplicates. */
static uint32_t merge_sorted(const uint32_t *a, uint32_t a_count, const uint32_t *b, uint32_t b_count, uint32_t *ret)
{
    uint32_t i = 0, j = 0, n = 0;

    while (i < a_count || j < b_count) {
        if (j == b_count || (i < a_count && a[i] < b[j]))
            ret[n++] = a[i++];
        else if (i == a_count || b[j] < a[i])
            ret[n++] = b[j++];
        else
            ret[n++] = a[i++], j++;
    }
    return n;
}

struct hiding hiding_join(const struct hiding *above, const struct verdict *own, uint32_t *ret_atoms)
{
    uint32_t own_count = (uint32_t) own->hider_count;

    if (own_count == 0 || own->class < above->class)
        return *above;
    if (own->class > above->class)
        return (struct hiding){ own->class, own->hiders, own_count };
    return (struct hiding){ own->class, ret_atoms,
                            merge_sorted(above->atoms, above->count, own->hiders, own_count, ret_atoms) };
}

static uint64_t hash_u32s(uint64_t h, const uint32_t *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        h = (h ^ items[i]) * 0xFF51AFD7ED558CCDu;
        h ^= h >> 32;
    }
    return h;
}

static bool match_state_is(const struct match_state *match, uint64_t hash, const struct node_set *nodes,
                           const struct hiding *above)
{
    return match->hash == hash && match->node_count == nodes->count && match->above_class == above->class &&
           match->above_count == above->count && memcmp(match->nodes, nodes->nodes, nodes->count * sizeof(uint32_t)) == 0 &&
           (above->count == 0 || memcmp(match->above, above->atoms, above->count * sizeof(uint32_t)) == 0);
}

static struct match_state *find_match_state(struct ruleset *rules, uint64_t hash, const struct node_set *nodes,
                                            const struct hiding *above)
{
    const struct match_state_table *table = atomic_load_explicit(&rules->states, memory_order_acquire);

    if (!table)
        return NULL;
    for (size_t i = hash & (table->cap - 1);; i = (i + 1) & (table->cap - 1)) {
        struct match_state *match = atomic_load_explicit(&table->states[i], memory_order_acquire);
        if (!match || match_state_is(match, hash, nodes, above))
            return match;
    }
}

static void table_put(struct match_state_table *table, struct match_state *match)
{
    size_t i = match->hash & (table->cap - 1);

    while (atomic_load_explicit(&table->states[i], memory_order_relaxed))
        i = (i + 1) & (table->cap - 1);
    atomic_store_explicit(&table->states[i], match, memory_order_release);
}

/* Makes room for one more state. Returns false if the budget does not allow it. */
static bool table_grow(struct ruleset *rules)
{
    struct match_state_table *old = atomic_load_explicit(&rules->states, memory_order_relaxed);
    size_t cap = old ? old->cap : 0;

    if (old && rules->state_count * 2 < cap)
        return true;
    cap = cap ? cap * 2 : 64;
    size_t size = sizeof(struct match_state_table) + cap * sizeof(struct match_state *);
    if (!budget_reserve(&rules->budget, size))
        return false;
    struct match_state_table *table = xalloc(size);
    table->cap = cap;
    table->retired = old;
    for (size_t i = 0; old && i < old->cap; i++) {
        struct match_state *match = atomic_load_explicit(&old->states[i], memory_order_relaxed);
        if (match)
            table_put(table, match);
    }
    atomic_store_explicit(&rules->states, table, memory_order_release);
    return true;
}

void match_state_table_free(struct match_state_table *table)
{
    for (size_t i = 0; table && i < table->cap; i++)
        free(atomic_load_explicit(&table->states[i], memory_order_relaxed));
    while (table) {
        struct match_state_table *retired = table->retired;
        free(table);
        table = retired;
    }
}

/* Adds a new state to the table if the budget allows, or returns the one that another thread added first. */
static struct match_state *keep_match_state(struct ruleset *rules, struct match_state *match, const struct node_set *nodes,
                                            const struct hiding *above)
{
    size_t size = sizeof(*match) + sizeof(uint32_t) * ((size_t) match->node_count + match->above_count + match->below_count);

    pthread_mutex_lock(&rules->states_lock);
    struct match_state *known = find_match_state(rules, match->hash, nodes, above);
    if (!known && table_grow(rules) && budget_reserve(&rules->budget, size)) {
        atomic_store_explicit(&match->refs, 0, memory_order_relaxed);
        table_put(atomic_load_explicit(&rules->states, memory_order_relaxed), match);
        rules->state_count++;
    }
    pthread_mutex_unlock(&rules->states_lock);
    if (!known)
        return match;
    free(match);
    return known;
}

static void collect_atoms(const struct ruleset *rules, const struct node_set *nodes, struct verdict *ret_verdict)
{
    autofree uint32_t *matching = NULL;
    size_t count = 0;

    for (size_t i = 0; i < nodes->count; i++)
        count += rules->infos[nodes->nodes[i]].accept_count;
    matching = xgrow(NULL, count, sizeof(*matching));
    count = 0;
    for (size_t i = 0; i < nodes->count; i++) {
        const struct node_info *info = &rules->infos[nodes->nodes[i]];
        memcpy(matching + count, rules->accepts + info->accept_first, info->accept_count * sizeof(*matching));
        count += info->accept_count;
    }
    verdict_init(ret_verdict, &rules->atoms, rules->memo, matching, count);
}

static uint32_t *put_items(uint32_t **at, const uint32_t *items, size_t count)
{
    uint32_t *put = *at;

    if (count)
        memcpy(put, items, count * sizeof(*items));
    *at += count;
    return put;
}

static struct match_state *make_match_state(struct ruleset *rules, uint64_t hash, const struct node_set *nodes,
                                            const struct hiding *above)
{
    struct verdict own;
    autofree uint32_t *joined = NULL;

    collect_atoms(rules, nodes, &own);
    joined = xgrow(NULL, above->count + own.hider_count, sizeof(*joined));
    struct hiding below = hiding_join(above, &own, joined);
    bool shown = own.grant != NO_ATOM && own.hider_count == 0 && hiding_lets_through(above, rules, own.grant);

    struct match_state *match = xalloc(sizeof(*match) + sizeof(uint32_t) * (nodes->count + above->count + below.count));
    uint32_t *at = match->items;
    atomic_init(&match->refs, 1);
    match->level = shown ? (uint8_t) rules->atoms.items[own.grant].level : LEVEL_NONE;
    match->grant = own.grant;
    match->class = own.class;
    match->hash = hash;
    match->above_class = above->class;
    match->below_class = below.class;
    match->node_count = (uint32_t) nodes->count;
    match->above_count = above->count;
    match->below_count = below.count;
    match->nodes = put_items(&at, nodes->nodes, nodes->count);
    match->above = put_items(&at, above->atoms, above->count);
    match->below = put_items(&at, below.atoms, below.count);
    verdict_done(&own);
    return match;
}

static void sort_nodes(struct node_set *set)
{
    if (set->count > 32) {
        qsort(set->nodes, set->count, sizeof(*set->nodes), unit_cmp);
        return;
    }
    for (size_t i = 1; i < set->count; i++) {
        uint32_t node = set->nodes[i];
        size_t j = i;
        for (; j > 0 && set->nodes[j - 1] > node; j--)
            set->nodes[j] = set->nodes[j - 1];
        set->nodes[j] = node;
    }
}

/*
 * Brings a set of nodes into its unique form: sorted, without duplicates, and without absorbing nodes (which match everything
 * that follows) that another absorbing node always outranks. Without the latter a path through many nested directories that
 * rules name would carry one node for each of them.
 */
static void normalise_nodes(const struct ruleset *rules, struct node_set *set)
{
    int64_t top = ATOM_CLASS_NONE;
    uint32_t best = 0;
    size_t kept = 0;

    sort_nodes(set);
    for (size_t i = 0; i < set->count; i++) {
        const struct node_info *info = &rules->infos[set->nodes[i]];
        if (!info->is_absorbing || info->top_class < top)
            continue;
        best = info->top_class > top || info->best_order > best ? info->best_order : best;
        top = info->top_class;
    }
    for (size_t i = 0; i < set->count; i++) {
        const struct node_info *info = &rules->infos[set->nodes[i]];
        bool outranked = info->is_absorbing && (info->top_class < top || (!info->none_at_top && info->best_order < best));
        if (!outranked && (kept == 0 || set->nodes[kept - 1] != set->nodes[i]))
            set->nodes[kept++] = set->nodes[i];
    }
    set->count = kept;
}

struct match_state *match_state_get(struct ruleset *rules, struct node_set *nodes, const struct hiding *above)
{
    normalise_nodes(rules, nodes);
    uint64_t hash = hash_u32s(0x9E3779B97F4A7C15u ^ nodes->count ^ (uint64_t) above->class << 16, nodes->nodes, nodes->count);
    hash = hash_u32s(hash * 0xC4CEB9FE1A85EC53u, above->atoms, above->count);
    struct match_state *match = find_match_state(rules, hash, nodes, above);

    if (match)
        return match;
    return keep_match_state(rules, make_match_state(rules, hash, nodes, above), nodes, above);
}

struct hiding match_state_hiding_below(const struct match_state *match)
{
    return (struct hiding){ match->below_class, match->below, match->below_count };
}

struct match_state *match_state_root_new(struct ruleset *rules)
{
    struct hiding nothing = { .class = ATOM_CLASS_NONE };
    struct node_set nodes;

    node_set_init(&nodes);
    trie_enter(rules->trie, TRIE_ROOT, &nodes);
    struct match_state *root = match_state_get(rules, &nodes, &nothing);
    node_set_done(&nodes);
    return root;
}

struct match_state *ruleset_step(struct ruleset *rules, const struct match_state *at, const char *name, size_t len)
{
    uint64_t hash = trie_hash(name, len);
    struct hiding above = match_state_hiding_below(at);
    struct node_set nodes;

    node_set_init(&nodes);
    for (uint32_t i = 0; i < at->node_count; i++)
        trie_follow(rules->trie, at->nodes[i], name, len, hash, &nodes);
    struct match_state *match = match_state_get(rules, &nodes, &above);
    node_set_done(&nodes);
    return match;
}

/* States in the table are shared and never freed, so the usual case costs no atomic write. */
struct match_state *match_state_ref(const struct match_state *match)
{
    struct match_state *p = (struct match_state *) match;

    if (atomic_load_explicit(&p->refs, memory_order_relaxed) > 0)
        atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void match_state_unref(struct match_state *match)
{
    if (!match || atomic_load_explicit(&match->refs, memory_order_relaxed) == 0)
        return;
    if (atomic_fetch_sub_explicit(&match->refs, 1, memory_order_acq_rel) == 1)
        free(match);
}

enum level match_state_level(const struct match_state *match)
{
    return (enum level) match->level;
}

int64_t match_state_hider_class(const struct match_state *match)
{
    return match->below_class;
}
