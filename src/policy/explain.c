#include "policy/explain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "policy/contain.h"
#include "policy/ruleset_int.h"

void explanation_free(struct explanation *explanation)
{
    if (!explanation)
        return;
    for (size_t i = 0; i < explanation->other_count; i++)
        free(explanation->others[i].reason);
    free(explanation->others);
    free(explanation->hidden_dir);
    free(explanation->path);
    free(explanation);
}

struct matching {
    uint32_t *atoms; /* owned */
    size_t count, cap;
};

static void find_matching(const struct ruleset *rules, const char *path, size_t len, struct matching *ret)
{
    *ret = (struct matching){ 0 };
    for (uint32_t i = 0; i < rules->atoms.count; i++) {
        if (pattern_matches(rules->atoms.items[i].pattern, path, len)) {
            vec_room(&ret->atoms, &ret->cap, ret->count);
            ret->atoms[ret->count++] = i;
        }
    }
}

static void decide_path(const struct ruleset *rules, const char *path, size_t len, struct verdict *ret_verdict)
{
    struct matching matching;

    find_matching(rules, path, len, &matching);
    verdict_init(ret_verdict, &rules->atoms, rules->memo, matching.atoms, matching.count);
    free(matching.atoms);
}

/* In which respect the winner is more specific, in the order in which the fields are compared. */
static const char *specificity_reason(const struct specificity *winner, const struct specificity *loser)
{
    if (winner->literal != loser->literal)
        return "has wildcards, the winner none";
    if (winner->anchored != loser->anchored)
        return "begins with **, the winner does not";
    if (winner->prefix_len != loser->prefix_len)
        return "shorter literal beginning";
    if (winner->literal_len != loser->literal_len)
        return "fewer literal characters";
    if (winner->any_depths != loser->any_depths)
        return "more **";
    return "equally specific, but earlier in the list";
}

static char *same_class_reason(const struct atom *winner, const struct atom *loser)
{
    bool winner_hides = winner->level == LEVEL_NONE, loser_hides = loser->level == LEVEL_NONE;

    if (winner_hides && loser_hides)
        return xdup("hides it as well");
    if (!winner_hides && !loser_hides)
        return xprintf("less specific: %s", specificity_reason(&winner->specificity, &loser->specificity));
    if (winner->rule > loser->rule && pattern_contains(winner->pattern, loser->pattern) &&
        pattern_contains(loser->pattern, winner->pattern))
        return xdup("names the same paths earlier in the list");
    if (winner_hides)
        return xdup("no exception: it is not contained in the rule that hides");
    return xdup("the winner is contained in it: an exception");
}

/* Why `loser` did not decide where `winner` did. */
static char *dup_reason(const struct atom *winner, const struct atom *loser)
{
    int32_t mine = atom_class_priority(loser->class), theirs = atom_class_priority(winner->class);

    if (mine != theirs)
        return xprintf("lower priority: %d against %d", mine, theirs);
    if (loser->class != winner->class)
        return xprintf("lower kind: %s against %s", atom_rank_name(atom_class_rank(loser->class)),
                       atom_rank_name(atom_class_rank(winner->class)));
    return same_class_reason(winner, loser);
}

/* Keeps one matching atom per rule, that of the highest class. */
static void matching_keep_strongest(const struct ruleset *rules, struct matching *matching)
{
    size_t kept = 0;

    for (size_t i = 0; i < matching->count; i++) {
        const struct atom *atom = &rules->atoms.items[matching->atoms[i]];
        const struct atom *last = kept ? &rules->atoms.items[matching->atoms[kept - 1]] : NULL;
        if (last && last->rule == atom->rule) {
            if (atom->class > last->class)
                matching->atoms[kept - 1] = matching->atoms[i];
            continue;
        }
        matching->atoms[kept++] = matching->atoms[i];
    }
    matching->count = kept;
}

static void explain_others(struct explanation *e, const struct ruleset *rules, uint32_t winner)
{
    const struct atom *won = &rules->atoms.items[winner];
    struct matching matching;

    find_matching(rules, e->path, strlen(e->path), &matching);
    matching_keep_strongest(rules, &matching);
    e->others = xalloc((matching.count + 1) * sizeof(*e->others));
    for (size_t i = 0; i < matching.count; i++) {
        const struct atom *atom = &rules->atoms.items[matching.atoms[i]];
        if (atom->rule != won->rule)
            e->others[e->other_count++] = (struct explained_rule){ atom->rule, dup_reason(won, atom) };
    }
    free(matching.atoms);
}

/* The length of the parent directory's path; 1 for children of the root. */
static size_t parent_path_len(const char *path, size_t len)
{
    while (len > 1 && path[len - 1] != '/')
        len--;
    return len > 1 ? len - 1 : 1;
}

/* Finds the strongest rule that hides a directory above and does not let the grant through. Of equal ones the nearest directory
 * counts. */
static uint32_t find_hider_above(struct ruleset *rules, const char *path, uint32_t grant, size_t *ret_dir_len)
{
    uint32_t found = NO_ATOM;

    for (size_t len = strlen(path); len > 1;) {
        struct verdict above;

        len = parent_path_len(path, len);
        decide_path(rules, path, len, &above);
        struct hiding hiding = { above.class, above.hiders, (uint32_t) above.hider_count };
        if (above.hider_count > 0 && !hiding_lets_through(&hiding, rules, grant) &&
            (found == NO_ATOM || above.class > rules->atoms.items[found].class)) {
            found = above.hiders[0];
            *ret_dir_len = len;
        }
        verdict_done(&above);
    }
    return found;
}

static void explain_granted(struct explanation *e, struct ruleset *rules, uint32_t grant)
{
    size_t dir_len = 0;
    uint32_t hider = find_hider_above(rules, e->path, grant, &dir_len);

    if (hider == NO_ATOM) {
        e->cause = EXPLAIN_GRANTED;
        e->level = rules->atoms.items[grant].level;
        e->rule = rules->atoms.items[grant].rule;
        explain_others(e, rules, grant);
        return;
    }
    e->cause = EXPLAIN_BENEATH;
    e->level = LEVEL_NONE;
    e->rule = rules->atoms.items[hider].rule;
    e->hidden_dir = xdupn(e->path, dir_len);
    explain_others(e, rules, hider);
}

static bool may_be_passage(struct ruleset *rules, const char *path)
{
    const char *end = path + strlen(path);
    struct match_state *at = match_state_ref(ruleset_root(rules));
    struct path_component c;

    for (const char *cursor = path; path_next_component(&cursor, end, &c);) {
        struct match_state *next = ruleset_step(rules, at, c.name, c.len);
        match_state_unref(at);
        at = next;
    }
    bool may = ruleset_may_show_below(rules, at);
    match_state_unref(at);
    return may;
}

int explain_path(struct ruleset *rules, const char *path, struct explanation **ret_explanation, struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    struct explanation *e;
    struct verdict own;
    int r;

    r = path_clean(path, strlen(path), &clean);
    if (r < 0) {
        buf_clear(&clean);
        buf_add_escaped(&clean, path, strlen(path));
        return err_invalid(err, "path '%s' is empty or leaves the workspace", clean.data);
    }
    e = xnew(struct explanation);
    e->path = buf_dup_take(&clean);
    decide_path(rules, e->path, strlen(e->path), &own);
    if (own.hider_count > 0) {
        e->cause = EXPLAIN_HIDDEN;
        e->rule = rules->atoms.items[own.hiders[0]].rule;
        explain_others(e, rules, own.hiders[0]);
    } else if (own.grant != NO_ATOM) {
        explain_granted(e, rules, own.grant);
    } else {
        e->cause = EXPLAIN_UNMATCHED;
        e->rule = EXPLAIN_NO_RULE;
    }
    e->may_be_passage = e->level == LEVEL_NONE && may_be_passage(rules, e->path);
    verdict_done(&own);
    *ret_explanation = e;
    return 0;
}
