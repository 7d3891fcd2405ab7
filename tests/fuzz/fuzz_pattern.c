/*
 * Patterns, their relations, and the compiled ruleset against the plain way of deciding.
 *
 * The input is lines. One that begins with a letter is a rule: the letter gives level, type and priority (see take_rule),
 * what follows is the pattern. Any other line is a path; the patterns are walked as paths too. With an odd number of lines
 * the codebase has a directory "workspace".
 */
#include "fuzz.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "policy/contain.h"
#include "policy/ruleset_int.h"

#define RULES_LIMIT ((size_t) 4)
#define PATHS_LIMIT ((size_t) 12)
#define ATOMS_LIMIT (RULES_LIMIT * 4) /* a rule has up to two readings, each in two places */

struct scene {
    struct rule_list rules;
    char *paths[PATHS_LIMIT]; /* owned; clean */
    size_t path_count;
    bool workspace_is_real;
};

static void scene_done(struct scene *scene)
{
    rule_list_done(&scene->rules);
    for (size_t i = 0; i < scene->path_count; i++)
        free(scene->paths[i]);
}

static void take_path(struct scene *scene, const char *text, size_t len)
{
    autodone(buf) struct buf path = BUF_EMPTY;

    if (scene->path_count < PATHS_LIMIT && path_clean(text, len, &path) >= 0)
        scene->paths[scene->path_count++] = buf_dup_take(&path);
}

static void take_rule(struct scene *scene, char letter, const char *text, size_t len)
{
    enum level level = (enum level)(letter & 3);
    enum rule_type type = (enum rule_type)(letter >> 2 & 3);
    int32_t priority = letter & 0x20 ? 0 : 1; /* upper case is more urgent */
    size_t count = scene->rules.count;
    struct err err = ERR_NONE;
    int r;

    if (count == RULES_LIMIT)
        return;
    r = rule_list_add(&scene->rules, text, len, type, level, priority, &err);
    if (r < 0)
        require_refusal(r, &err);
    require(scene->rules.count == count + (r >= 0));
    take_path(scene, text, len);
}

static void take_line(struct scene *scene, const char *line, size_t len)
{
    scene->workspace_is_real = !scene->workspace_is_real;
    if (len > 0 && ((line[0] >= 'a' && line[0] <= 'z') || (line[0] >= 'A' && line[0] <= 'Z')))
        take_rule(scene, line[0], line + 1, len - 1);
    else
        take_path(scene, line, len);
}

static struct ruleset *compile(const struct scene *scene, size_t cache_bytes)
{
    struct ruleset_options options = { .workspace_is_real = scene->workspace_is_real, .cache_bytes = cache_bytes };
    struct ruleset *rules = NULL;

    require(ruleset_new(&scene->rules, &options, &rules, NULL) == 0);
    require(rules->atoms.count <= ATOMS_LIMIT);
    return rules;
}

/* What holds between two patterns must hold on every path at hand. */
static void check_pair(const struct scene *scene, const struct pattern *a, const struct pattern *b)
{
    bool a_has_b = pattern_contains(a, b), b_has_a = pattern_contains(b, a);
    bool overlaps = pattern_overlaps(a, b);

    require(overlaps == pattern_overlaps(b, a));
    for (size_t i = 0; i < scene->path_count; i++) {
        bool in_a = pattern_matches(a, scene->paths[i], strlen(scene->paths[i]));
        bool in_b = pattern_matches(b, scene->paths[i], strlen(scene->paths[i]));
        require(!a_has_b || !in_b || in_a);
        require(!b_has_a || !in_a || in_b);
        require(overlaps || !in_a || !in_b);
    }
}

static void check_patterns(const struct scene *scene, const struct atom_list *atoms)
{
    for (size_t i = 0; i < atoms->count; i++) {
        const struct atom *atom = &atoms->items[i];
        require(pattern_contains(atom->pattern, atom->pattern));
        require(pattern_contains(atom_cover(atom), atom->pattern));
        for (size_t j = 0; j < i; j++)
            check_pair(scene, atom->pattern, atoms->items[j].pattern);
    }
}

/* The level of a path as the design words it, pattern by pattern, without the trie and without anything remembered. */
struct slow_walk {
    struct ruleset *rules;
    struct hiding above;
    uint32_t hiders[ATOMS_LIMIT]; /* where above.atoms points */
    enum level level;
};

static void slow_step(struct slow_walk *walk, const char *path, size_t len)
{
    const struct atom_list *atoms = &walk->rules->atoms;
    uint32_t matching[ATOMS_LIMIT], joined[ATOMS_LIMIT * 2];
    struct verdict own;
    size_t count = 0;

    for (uint32_t i = 0; i < atoms->count; i++) {
        if (pattern_matches(atoms->items[i].pattern, path, len))
            matching[count++] = i;
    }
    verdict_init(&own, atoms, walk->rules->memo, matching, count);
    bool shown = own.grant != NO_ATOM && own.hider_count == 0 && hiding_lets_through(&walk->above, walk->rules, own.grant);
    walk->level = shown ? atoms->items[own.grant].level : LEVEL_NONE;
    walk->above = hiding_join(&walk->above, &own, joined);
    memmove(walk->hiders, walk->above.atoms, walk->above.count * sizeof(*walk->hiders));
    walk->above.atoms = walk->hiders;
    verdict_done(&own);
}

static enum level slow_level_of(struct ruleset *rules, const char *path)
{
    struct slow_walk walk = { .rules = rules, .above = { .class = ATOM_CLASS_NONE } };

    walk.above.atoms = walk.hiders;
    slow_step(&walk, "/", 1);
    for (size_t len = 1; path[len - 1] && path[1]; len++) {
        if (path[len] == '/' || path[len] == '\0')
            slow_step(&walk, path, len);
    }
    return walk.level;
}

/* Walks the path and checks at each step that what was said to be impossible below does not come. */
static void check_steps(struct ruleset *rules, const char *path)
{
    struct match_state *at = match_state_ref(ruleset_root(rules));
    bool may_show = true;

    for (const char *name = path + 1; *name;) {
        size_t len = strcspn(name, "/");
        may_show = may_show && ruleset_may_show_below(rules, at);
        bool may_write = ruleset_may_write_child(rules, at);
        struct match_state *next = ruleset_step(rules, at, name, len);

        require(may_show || match_state_level(next) == LEVEL_NONE);
        require(may_write || match_state_level(next) != LEVEL_WRITE);
        match_state_unref(at);
        at = next;
        name += len + (name[len] == '/');
    }
    require(match_state_level(at) == ruleset_level_of(rules, path));
    match_state_unref(at);
}

static int on_writable_root(const char *path, void *cookie)
{
    require(ruleset_level_of(cookie, path) == LEVEL_WRITE);
    return 0;
}

static void check_rules(const struct scene *scene)
{
    autoptr(ruleset) usual = compile(scene, 0);
    autoptr(ruleset) cramped = compile(scene, 1);

    check_patterns(scene, &usual->atoms);
    for (size_t i = 0; i < scene->path_count; i++) {
        enum level level = ruleset_level_of(usual, scene->paths[i]);
        require(level == ruleset_level_of(cramped, scene->paths[i]));
        require(level == ruleset_level_of(usual, scene->paths[i])); /* the second time from what was kept */
        require(level == slow_level_of(usual, scene->paths[i]));
        check_steps(usual, scene->paths[i]);
        check_steps(cramped, scene->paths[i]);
    }
    require(ruleset_each_writable_root(usual, on_writable_root, usual) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autodone(scene) struct scene scene = { .rules = RULE_LIST_EMPTY };
    const char *at = (const char *) data, *end = at + size;

    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t) (end - at));
        if (!stop)
            stop = end;
        take_line(&scene, at, (size_t) (stop - at));
        at = stop < end ? stop + 1 : end;
    }
    check_rules(&scene);
    return 0;
}
