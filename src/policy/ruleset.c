#include "policy/ruleset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "policy/ruleset_int.h"

static int cmp_specificity(const void *a, const void *b, void *cookie)
{
    const struct atom *atoms = cookie;
    const struct atom *x = &atoms[*(const uint32_t *) a], *y = &atoms[*(const uint32_t *) b];
    int r = pattern_specificity_cmp(&x->specificity, &y->specificity);

    if (r != 0)
        return r;
    return (x->rule > y->rule) - (x->rule < y->rule);
}

/* Ranks all atoms by specificity once, so that later comparisons compare two numbers. */
static void order_atoms(struct atom_list *atoms)
{
    autofree uint32_t *by = xgrow(NULL, atoms->count, sizeof(*by));

    for (uint32_t i = 0; i < atoms->count; i++)
        by[i] = i;
    qsort_r(by, atoms->count, sizeof(*by), cmp_specificity, atoms->items);
    for (uint32_t i = 0; i < atoms->count; i++)
        atoms->items[by[i]].order = i + 1;
}

static void add_to_info(struct node_info *info, const struct atom *atom)
{
    if (atom->class > info->top_class) {
        info->top_class = atom->class;
        info->best_order = 0;
        info->none_at_top = false;
    }
    if (atom->class < info->top_class)
        return;
    if (atom->level == LEVEL_NONE)
        info->none_at_top = true;
    else if (atom->order > info->best_order)
        info->best_order = atom->order;
}

/* Sorts the atoms by the node at which they end, so that the atoms of a node are consecutive in `accepts`. */
static void fill_accepts(struct ruleset *rules, const uint32_t *ends)
{
    size_t node_count = trie_node_count(rules->trie);
    uint32_t at = 0;

    rules->infos = xalloc(node_count * sizeof(*rules->infos));
    rules->accepts = xgrow(NULL, rules->atoms.count, sizeof(*rules->accepts));
    for (size_t i = 0; i < rules->atoms.count; i++)
        rules->infos[ends[i]].accept_count++;
    for (size_t node = 0; node < node_count; node++) {
        struct node_info *info = &rules->infos[node];
        info->accept_first = at;
        at += info->accept_count;
        info->accept_count = 0;
        info->top_class = info->grant_class_below = ATOM_CLASS_NONE;
    }
    for (uint32_t i = 0; i < rules->atoms.count; i++) {
        struct node_info *info = &rules->infos[ends[i]];
        rules->accepts[info->accept_first + info->accept_count++] = i;
        add_to_info(info, &rules->atoms.items[i]);
    }
}

static int64_t highest_grant(const struct ruleset *rules, const struct node_info *info)
{
    int64_t class = ATOM_CLASS_NONE;

    for (uint32_t i = 0; i < info->accept_count; i++) {
        const struct atom *atom = &rules->atoms.items[rules->accepts[info->accept_first + i]];
        if (atom->level != LEVEL_NONE && atom->class > class)
            class = atom->class;
    }
    return class;
}

static void raise_class(int64_t *class, int64_t to)
{
    if (to > *class)
        *class = to;
}

/* Children have higher numbers than their parents, so this loop visits children first. */
static void fill_reach(struct ruleset *rules)
{
    for (size_t node = trie_node_count(rules->trie); node-- > 0;) {
        const struct trie_node *n = trie_node(rules->trie, (uint32_t) node);
        struct node_info *info = &rules->infos[node];
        int64_t own = highest_grant(rules, info);

        if (n->loops)
            raise_class(&info->grant_class_below, own);
        info->is_absorbing = n->loops && n->first_child == TRIE_NIL;
        if (node != TRIE_ROOT) {
            struct node_info *parent = &rules->infos[n->parent];
            raise_class(&parent->grant_class_below, own);
            raise_class(&parent->grant_class_below, info->grant_class_below);
        }
    }
}

static int ruleset_compile(struct ruleset *rules, bool strip_workspace, struct err *err)
{
    autofree uint32_t *ends = NULL;
    int r;

    for (uint32_t i = 0; i < rules->rules.count; i++) {
        r = atom_list_add_rule(&rules->atoms, &rules->rules.items[i], i, strip_workspace, err);
        if (r < 0)
            return err_wrap(err, r, "rule %u '%s'", i + 1, rules->rules.items[i].pattern);
    }
    order_atoms(&rules->atoms);
    ends = xgrow(NULL, rules->atoms.count, sizeof(*ends));
    for (size_t i = 0; i < rules->atoms.count; i++)
        ends[i] = trie_add(rules->trie, rules->atoms.items[i].pattern);
    trie_seal(rules->trie);
    fill_accepts(rules, ends);
    fill_reach(rules);
    rules->root = match_state_root_new(rules);
    return 0;
}

int ruleset_new(const struct rule_list *list, const struct ruleset_options *options, struct ruleset **ret_rules,
                struct err *err)
{
    static const struct ruleset_options defaults = { 0 };
    autoptr(ruleset) rules = xnew(struct ruleset);
    int r;

    if (!options)
        options = &defaults;
    atomic_init(&rules->refs, 1);
    atomic_init(&rules->budget.left_bytes, options->cache_bytes ? options->cache_bytes : RULESET_CACHE_BYTES);
    pthread_mutex_init(&rules->states_lock, NULL);
    rules->trie = trie_new(&rules->budget);
    rules->memo = yield_memo_new(&rules->atoms);
    r = rule_list_add_all(&rules->rules, list, err);
    if (r < 0)
        return r;
    r = ruleset_compile(rules, !options->workspace_is_real, err);
    if (r < 0)
        return r;
    *ret_rules = steal_ptr(&rules);
    return 0;
}

struct ruleset *ruleset_ref(struct ruleset *rules)
{
    atomic_fetch_add_explicit(&rules->refs, 1, memory_order_relaxed);
    return rules;
}

void ruleset_unref(struct ruleset *rules)
{
    if (!rules || atomic_fetch_sub_explicit(&rules->refs, 1, memory_order_acq_rel) != 1)
        return;
    match_state_unref(rules->root);
    match_state_table_free(atomic_load_explicit(&rules->states, memory_order_relaxed));
    trie_free(rules->trie);
    yield_memo_free(rules->memo);
    free(rules->infos);
    free(rules->accepts);
    atom_list_done(&rules->atoms);
    rule_list_done(&rules->rules);
    pthread_mutex_destroy(&rules->states_lock);
    free(rules);
}

const struct match_state *ruleset_root(const struct ruleset *rules)
{
    return rules->root;
}

const struct rule_list *ruleset_rules(const struct ruleset *rules)
{
    return &rules->rules;
}

enum level ruleset_level_of(struct ruleset *rules, const char *path)
{
    struct match_state *at = match_state_ref(rules->root);

    for (const char *name = path + strspn(path, "/"); *name;) {
        size_t len = strcspn(name, "/");
        struct match_state *next = ruleset_step(rules, at, name, len);
        match_state_unref(at);
        at = next;
        name += len;
        name += strspn(name, "/");
    }
    enum level level = match_state_level(at);
    match_state_unref(at);
    return level;
}

/* A directory without wildcards, with all beneath it: `/output/`, or `/output/` followed by `**`. */
static bool names_directory(const struct rule *rule, const struct pattern *pattern)
{
    size_t len = strlen(rule->pattern);
    bool says_so = rule->type == RULE_DIRECTORY || rule->pattern[len - 1] == '/' ||
                   (len > 3 && rule->type != RULE_FILE && strcmp(rule->pattern + len - 3, "/**") == 0);

    if (!says_so || pattern->count < 2 || !pattern->parts[pattern->count - 1].any_depth)
        return false;
    for (size_t i = 0; i + 1 < pattern->count; i++) {
        if (pattern->parts[i].any_depth || pattern->parts[i].glob.shape != GLOB_LITERAL)
            return false;
    }
    return true;
}

int ruleset_each_writable_root(struct ruleset *rules, ruleset_dir_fn on_dir, void *cookie)
{
    for (size_t i = 0; i < rules->atoms.count; i++) {
        const struct atom *atom = &rules->atoms.items[i];
        const struct pattern *pattern = atom->pattern;

        if (atom->level != LEVEL_WRITE || !names_directory(&rules->rules.items[atom->rule], pattern))
            continue;
        autofree char *path = pattern_dup_literal_path(pattern, pattern->count - 1);
        if (ruleset_level_of(rules, path) != LEVEL_WRITE)
            continue;
        int r = on_dir(path, cookie);
        if (r < 0)
            return r;
    }
    return 0;
}
