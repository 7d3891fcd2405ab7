/*
 * Compares the compiled ruleset with a matcher that is simple enough to be obviously right. Everything happens in a small
 * world: names of one or two letters, paths of up to four names, about 22,000 paths. In it a pattern is the set of paths that
 * it matches, found by recursion, and "contained" is "subset". The world is rich enough to tell any two of the generated
 * patterns apart. Rules, ranks and hiding are implemented once more as the design describes them, without automata, and
 * compared on random rulesets. POLICY_SEED=n repeats a run; the seed is printed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "policy/ruleset.h"

#define RULESETS 6000
#define PATHS_PER_SET 40

static const char *const names[] = { "a", "b", "z", "aa", "ab", "az", "ba", "bb", "bz", "za", "zb", "zz" };
#define NAMES 12
#define DEPTH_MAX 4
#define WORLD_SIZE (1 + 12 + 144 + 1728 + 20736)

static uint64_t random_state;

static uint32_t rnd(uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) ((random_state >> 33) % below);
}

/* Paths of the world are numbered level by level; a path's parent is found by arithmetic. */
static uint32_t level_start(int depth)
{
    static const uint32_t starts[] = { 0, 1, 13, 157, 1885, WORLD_SIZE };
    return starts[depth];
}

static int depth_of(uint32_t path)
{
    int depth = 0;

    while (path >= level_start(depth + 1))
        depth++;
    return depth;
}

static uint32_t parent_of(uint32_t path)
{
    int depth = depth_of(path);

    return level_start(depth - 1) + (path - level_start(depth)) / NAMES;
}

static int components(uint32_t path, const char *ret[DEPTH_MAX])
{
    int depth = depth_of(path);

    for (int i = depth; i > 0; i--) {
        ret[i - 1] = names[(path - level_start(i)) % NAMES];
        path = parent_of(path);
    }
    return depth;
}

/* --- the plain matcher --- */

static bool plain_glob(const char *glob, const char *name)
{
    if (*glob == '\0')
        return *name == '\0';
    if (*glob == '*')
        return plain_glob(glob + 1, name) || (*name && plain_glob(glob, name + 1));
    if (*name == '\0')
        return false;
    if (*glob == '?')
        return plain_glob(glob + 1, name + 1);
    if (*glob == '[') {
        const char *close = strchr(glob, ']');
        bool negated = glob[1] == '!', in = false;
        for (const char *c = glob + 1 + negated; c < close; c++)
            in |= *c == *name;
        return in != negated && plain_glob(close + 1, name + 1);
    }
    return *glob == *name && plain_glob(glob + 1, name + 1);
}

#define PARTS_MAX 6

struct plain_pattern {
    const char *parts[PARTS_MAX];
    int count;
    uint64_t *world; /* bit per path */
};

static bool plain_match(const struct plain_pattern *p, int part, const char **path, int count)
{
    if (part == p->count)
        return count == 0;
    if (strcmp(p->parts[part], "**") == 0)
        return plain_match(p, part + 1, path, count) || (count > 0 && plain_match(p, part, path + 1, count - 1));
    return count > 0 && plain_glob(p->parts[part], path[0]) && plain_match(p, part + 1, path + 1, count - 1);
}

static struct plain_pattern *patterns;
static size_t pattern_count, pattern_cap;

/* Patterns by number, each with its world computed once. */
static size_t pattern_number(const char **parts, int count)
{
    for (size_t i = 0; i < pattern_count; i++) {
        bool same = patterns[i].count == count;
        for (int k = 0; same && k < count; k++)
            same = strcmp(patterns[i].parts[k], parts[k]) == 0;
        if (same)
            return i;
    }
    vec_room(&patterns, &pattern_cap, pattern_count);
    struct plain_pattern *p = &patterns[pattern_count];
    *p = (struct plain_pattern){ .count = count, .world = xalloc((WORLD_SIZE + 63) / 64 * 8) };
    memcpy(p->parts, parts, (size_t) count * sizeof(*parts));
    for (uint32_t path = 0; path < WORLD_SIZE; path++) {
        const char *comps[DEPTH_MAX];
        int depth = components(path, comps);
        if (plain_match(p, 0, comps, depth))
            p->world[path / 64] |= UINT64_C(1) << path % 64;
    }
    return pattern_count++;
}

static bool matches(size_t pattern, uint32_t path)
{
    return patterns[pattern].world[path / 64] >> path % 64 & 1;
}

static bool subset(size_t inner, size_t outer)
{
    for (size_t i = 0; i < (WORLD_SIZE + 63) / 64; i++) {
        if (patterns[inner].world[i] & ~patterns[outer].world[i])
            return false;
    }
    return true;
}

/* --- the rules, implemented once more --- */

struct plain_atom {
    int rule;
    enum level level;
    int priority;
    int rank; /* 3 file, 2 directory, 1 glob */
    size_t pattern;
    size_t cover;
    const char *written[PARTS_MAX]; /* for specificity: without the implied `**` of a directory */
    int written_count;
};

static bool is_wild(const char *part)
{
    return strpbrk(part, "*?[") != NULL;
}

static int literal_chars(const char *part)
{
    int n = 0;

    for (; *part; part++) {
        if (*part == '[')
            part = strchr(part, ']');
        else if (*part != '*' && *part != '?')
            n++;
    }
    return n;
}

static int compare_specificity(const struct plain_atom *a, const struct plain_atom *b)
{
    int key[2][5] = { { 0 }, { 0 } };
    const struct plain_atom *both[] = { a, b };

    for (int k = 0; k < 2; k++) {
        const struct plain_atom *x = both[k];
        bool in_prefix = true;
        key[k][0] = 1;
        key[k][1] = x->written_count == 0 || strcmp(x->written[0], "**") != 0;
        for (int i = 0; i < x->written_count; i++) {
            bool deep = strcmp(x->written[i], "**") == 0;
            if (in_prefix)
                key[k][2] += 1 + (int) strcspn(x->written[i], "*?[");
            if (is_wild(x->written[i]))
                key[k][0] = 0, in_prefix = false;
            key[k][3] += deep ? 0 : literal_chars(x->written[i]);
            key[k][4] -= deep;
        }
    }
    for (int i = 0; i < 5; i++) {
        if (key[0][i] != key[1][i])
            return key[0][i] - key[1][i];
    }
    return a->rule - b->rule;
}

static bool gives_way(const struct plain_atom *none, const struct plain_atom *grant)
{
    if (!subset(grant->pattern, none->cover))
        return false;
    if (subset(none->pattern, grant->pattern))
        return grant->rule > none->rule;
    return true;
}

#define ATOMS_MAX 64

struct plain_rules {
    struct plain_atom atoms[ATOMS_MAX];
    int count;
};

static int compare_class(const struct plain_atom *a, const struct plain_atom *b)
{
    return a->priority != b->priority ? a->priority - b->priority : a->rank - b->rank;
}

struct plain_verdict {
    const struct plain_atom *grant;
    const struct plain_atom *hiders[ATOMS_MAX];
    int hider_count;
};

static struct plain_verdict judge(const struct plain_rules *rules, uint32_t path)
{
    struct plain_verdict v = { 0 };
    const struct plain_atom *top = NULL;

    for (int i = 0; i < rules->count; i++) {
        const struct plain_atom *a = &rules->atoms[i];
        if (matches(a->pattern, path) && (!top || compare_class(a, top) > 0))
            top = a;
    }
    for (int i = 0; top && i < rules->count; i++) {
        const struct plain_atom *a = &rules->atoms[i];
        if (matches(a->pattern, path) && compare_class(a, top) == 0 && a->level != LEVEL_NONE &&
            (!v.grant || compare_specificity(a, v.grant) > 0))
            v.grant = a;
    }
    for (int i = 0; top && i < rules->count; i++) {
        const struct plain_atom *a = &rules->atoms[i];
        if (matches(a->pattern, path) && compare_class(a, top) == 0 && a->level == LEVEL_NONE &&
            !(v.grant && gives_way(a, v.grant)))
            v.hiders[v.hider_count++] = a;
    }
    return v;
}

static enum level plain_level(const struct plain_rules *rules, uint32_t path)
{
    struct plain_verdict own = judge(rules, path);

    if (!own.grant || own.hider_count > 0)
        return LEVEL_NONE;
    while (path != 0) {
        path = parent_of(path);
        struct plain_verdict above = judge(rules, path);
        for (int i = 0; i < above.hider_count; i++) {
            int c = compare_class(own.grant, above.hiders[i]);
            if (c < 0 || (c == 0 && !gives_way(above.hiders[i], own.grant)))
                return LEVEL_NONE;
        }
    }
    return own.grant->level;
}

/* --- random rules --- */

static const char *const parts_pool[] = { "a",    "b",    "ab", "z",   "*",  "?",  "a*", "*b",
                                          "[ab]", "[!a]", "a?", "*a*", "?b", "**", "**" };

static void add_atom(struct plain_rules *rules, int rule, enum level level, int priority, int rank, const char **parts,
                     int count, bool beneath, bool wide_cover)
{
    struct plain_atom *a = &rules->atoms[rules->count++];
    const char *more[PARTS_MAX];

    assert_true(rules->count <= ATOMS_MAX && count + 1 <= PARTS_MAX);
    *a = (struct plain_atom){ .rule = rule, .level = level, .priority = priority, .rank = rank, .written_count = count };
    memcpy(a->written, parts, (size_t) count * sizeof(*parts));
    memcpy(more, parts, (size_t) count * sizeof(*parts));
    more[count] = "**";
    a->pattern = pattern_number(beneath ? more : parts, beneath ? count + 1 : count);
    a->cover = wide_cover ? pattern_number(more, count + 1) : a->pattern;
}

/* Adds one random rule to both. */
static void add_random_rule(struct rule_list *list, struct plain_rules *rules)
{
    const char *parts[PARTS_MAX];
    char text[64] = "";
    int rule = (int) list->count, count = 1 + (int) rnd(3), n = 0, priority = rnd(3) ? 0 : (int) rnd(3) - 1;
    bool slash = rnd(2), trailing = rnd(5) == 0, literal = true;
    enum level level = rnd(2) ? LEVEL_NONE : (enum level)(1 + rnd(3));
    enum rule_type type = rnd(4) ? RULE_GLOB : (enum rule_type) rnd(4);

    for (int i = 0; i < count; i++) {
        parts[n] = parts_pool[rnd(ARRAY_LEN(parts_pool))];
        if (type == RULE_FILE || type == RULE_DIRECTORY)
            parts[n] = parts_pool[rnd(4)]; /* exact types: no wildcards here */
        literal &= !is_wild(parts[n]);
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i || slash ? "/" : "", parts[n]);
        n++;
    }
    strcat(text, trailing ? "/" : "");
    assert_int_equal(rule_list_add(list, text, strlen(text), type, level, priority, NULL), 0);

    const char *norm[PARTS_MAX];
    int m = 0;
    if (level == LEVEL_NONE && count == 1 && !slash)
        norm[m++] = "**";
    for (int i = 0; i < n; i++) {
        if (!(strcmp(parts[i], "**") == 0 && m > 0 && strcmp(norm[m - 1], "**") == 0))
            norm[m++] = parts[i];
    }
    if (type == RULE_FILE) {
        add_atom(rules, rule, level, priority, 3, norm, m, false, false);
    } else if (type == RULE_DIRECTORY || trailing) {
        bool has = strcmp(norm[m - 1], "**") == 0;
        add_atom(rules, rule, level, priority, 2, norm, m, !has, false);
    } else if (literal) {
        add_atom(rules, rule, level, priority, 3, norm, m, false, true);
        norm[m] = "**";
        add_atom(rules, rule, level, priority, 1, norm, m + 1, false, false);
    } else {
        add_atom(rules, rule, level, priority, 1, norm, m, false, false);
    }
}

static void print_case(const struct rule_list *list, uint32_t path)
{
    const char *comps[DEPTH_MAX];
    int depth = components(path, comps);

    for (size_t i = 0; i < list->count; i++)
        print_message("  %zu: %s = %s @%d (%s)\n", i + 1, list->items[i].pattern, level_name(list->items[i].level),
                      list->items[i].priority, rule_type_name(list->items[i].type));
    print_message("  path: ");
    for (int i = 0; i < depth; i++)
        print_message("/%s", comps[i]);
    print_message("\n");
}

static struct match_state *walk(struct ruleset *rules, uint32_t path)
{
    const char *comps[DEPTH_MAX];
    int depth = components(path, comps);
    struct match_state *at = match_state_ref(ruleset_root(rules));

    for (int i = 0; i < depth; i++) {
        struct match_state *next = ruleset_step(rules, at, comps[i], strlen(comps[i]));
        match_state_unref(at);
        at = next;
    }
    return at;
}

static int all_written; /* how often a whole subtree was `write`: the check must not be idle */

/* What may be visible below must never be denied, nor what may be written. */
static void check_hints(struct ruleset *rules, const struct plain_rules *plain, const struct rule_list *list, uint32_t path,
                        const struct match_state *at)
{
    int depth = depth_of(path);

    if (depth == DEPTH_MAX)
        return;
    uint32_t first = level_start(depth + 1) + (path - level_start(depth)) * NAMES;
    bool shows = ruleset_may_show_below(rules, at), writes = ruleset_may_write_child(rules, at);
    bool writes_all = ruleset_writes_all_below(rules, at);

    all_written += writes_all;
    for (uint32_t child = first; child < first + NAMES; child++) {
        enum level level = plain_level(plain, child);
        uint32_t below =
            depth + 2 <= DEPTH_MAX ? level_start(depth + 2) + (child - level_start(depth + 1)) * NAMES + rnd(NAMES) : child;
        if ((level != LEVEL_NONE || plain_level(plain, below) != LEVEL_NONE) && !shows) {
            print_case(list, path);
            fail_msg("something below is visible, but the ruleset says nothing can be");
        }
        if (writes_all && (level != LEVEL_WRITE || plain_level(plain, below) != LEVEL_WRITE)) {
            print_case(list, path);
            fail_msg("not all below is write, but the ruleset says it is");
        }
        if (level == LEVEL_WRITE && !writes) {
            print_case(list, child);
            fail_msg("a child is write, but the ruleset says none can be");
        }
    }
}

static void compare_ruleset(size_t cache_bytes, const struct rule_list *list, const struct plain_rules *plain)
{
    struct ruleset_options options = { .cache_bytes = cache_bytes };
    struct ruleset *rules;

    assert_int_equal(ruleset_new(list, &options, &rules, NULL), 0);
    for (int i = 0; i < PATHS_PER_SET; i++) {
        int depth = (int) rnd(DEPTH_MAX + 1);
        uint32_t path = level_start(depth) + rnd(level_start(depth + 1) - level_start(depth));
        struct match_state *at = walk(rules, path);
        enum level expected = plain_level(plain, path);
        if (match_state_level(at) != expected) {
            print_case(list, path);
            fail_msg("the ruleset says %s, the plain matcher %s", level_name(match_state_level(at)), level_name(expected));
        }
        if (i % 4 == 0)
            check_hints(rules, plain, list, path, at);
        match_state_unref(at);
    }
    ruleset_unref(rules);
}

static void the_automaton_agrees_with_the_plain_matcher(void **state)
{
    (void) state;
    for (int i = 0; i < RULESETS; i++) {
        struct rule_list list = RULE_LIST_EMPTY;
        static struct plain_rules plain;
        int count = 1 + (int) rnd(9);

        plain.count = 0;
        for (int k = 0; k < count; k++)
            add_random_rule(&list, &plain);
        /* Every fourth ruleset may cache nothing: the answers must not depend on the cache. */
        compare_ruleset(i % 4 == 0 ? 1 : 0, &list, &plain);
        rule_list_done(&list);
    }
    print_message("%d rulesets, %d (ruleset, path) pairs, %zu distinct patterns\n", RULESETS, RULESETS * PATHS_PER_SET,
                  pattern_count);
    assert_true(all_written > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_automaton_agrees_with_the_plain_matcher),
    };
    const char *seed = getenv("POLICY_SEED");

    random_state = seed ? strtoull(seed, NULL, 10) : (uint64_t) time(NULL);
    printf("POLICY_SEED=%llu\n", (unsigned long long) random_state);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < pattern_count; i++)
        free(patterns[i].world);
    free(patterns);
    return failed;
}
