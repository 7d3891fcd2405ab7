#include "policy/lint.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "policy/contain.h"
#include "policy/ruleset_int.h"

/* Comparing every rule with every other is quadratic. After this much work, which takes some seconds, lint stops and says so. A
 * quick comparison counts as one, deciding containment or overlap as many. */
#define WORK_MAX 10000000
#define WORK_DECISION 64

struct lint {
    struct ruleset *rules; /* borrowed */
    bool saw_any;
    bool *matched;       /* owned; by rule */
    uint32_t *unmatched; /* owned; atoms of rules that have matched nothing so far */
    size_t unmatched_count;
    char **samples; /* owned; by atom: a path that it matches */
    size_t work;
    struct lint_finding *findings; /* owned */
    size_t count, cap;
};

static const struct rule *rule_of(const struct lint *lint, const struct atom *atom)
{
    return &lint->rules->rules.items[atom->rule];
}

/* Adds a unit that the token accepts. */
static void add_sample_unit(struct buf *path, const struct glob *glob, const struct glob_token *token)
{
    static const uint32_t tries[] = { 'x', 'y', '0', '_', '-', 'A', ' ' };
    uint32_t unit = token->kind == GLOB_UNIT ? token->unit : 'x';
    char bytes[4];

    if (token->kind == GLOB_SET) {
        unit = token->set_negated || token->set_count == 0 ? 'x' : glob->ranges[token->set_first].first;
        for (size_t i = 0; token->set_negated && i < ARRAY_LEN(tries) && !glob_token_accepts(glob, token, unit); i++)
            unit = tries[i];
    }
    if (unit >= UNIT_STRAY_BYTE) {
        buf_add_char(path, (char) (unit - UNIT_STRAY_BYTE));
        return;
    }
    size_t len = utf8_write(unit, bytes);
    buf_add(path, bytes, len);
}

/* Returns a path that the pattern matches: every `**` is empty, every wildcard as short as possible. */
static char *dup_sample(const struct pattern *pattern)
{
    autodone(buf) struct buf path = BUF_EMPTY;

    for (size_t i = 0; i < pattern->count; i++) {
        const struct glob *glob = &pattern->parts[i].glob;
        if (pattern->parts[i].any_depth)
            continue;
        buf_add_char(&path, '/');
        for (size_t t = 0; t < glob->token_count; t++) {
            if (glob->tokens[t].kind != GLOB_STAR || glob->token_count == 1)
                add_sample_unit(&path, glob, &glob->tokens[t]);
        }
    }
    if (path.len == 0)
        buf_add_char(&path, '/');
    return buf_dup_take(&path);
}

struct lint *lint_new(struct ruleset *rules)
{
    struct lint *lint = xnew(struct lint);

    lint->rules = rules;
    lint->matched = xalloc(rules->rules.count * sizeof(*lint->matched));
    lint->unmatched = xgrow(NULL, rules->atoms.count, sizeof(*lint->unmatched));
    for (uint32_t i = 0; i < rules->atoms.count; i++) {
        if (!rule_of(lint, &rules->atoms.items[i])->preset)
            lint->unmatched[lint->unmatched_count++] = i;
    }
    lint->samples = xgrow(NULL, rules->atoms.count, sizeof(*lint->samples));
    for (size_t i = 0; i < rules->atoms.count; i++)
        lint->samples[i] = dup_sample(rules->atoms.items[i].pattern);
    return lint;
}

void lint_free(struct lint *lint)
{
    if (!lint)
        return;
    for (size_t i = 0; i < lint->count; i++)
        free(lint->findings[i].text);
    free(lint->findings);
    for (size_t i = 0; i < lint->rules->atoms.count; i++)
        free(lint->samples[i]);
    free(lint->samples);
    free(lint->matched);
    free(lint->unmatched);
    free(lint);
}

void lint_add_path(struct lint *lint, const char *path)
{
    size_t len = strlen(path), kept = 0;

    lint->saw_any = true;
    for (size_t i = 0; i < lint->unmatched_count; i++) {
        const struct atom *atom = &lint->rules->atoms.items[lint->unmatched[i]];
        if (!lint->matched[atom->rule] && pattern_matches(atom->pattern, path, len))
            lint->matched[atom->rule] = true;
        if (!lint->matched[atom->rule])
            lint->unmatched[kept++] = lint->unmatched[i];
    }
    lint->unmatched_count = kept;
}

static void lint_add_finding(struct lint *lint, enum lint_severity severity, const char *code, size_t rule, size_t other,
                             char *text)
{
    vec_room(&lint->findings, &lint->cap, lint->count);
    lint->findings[lint->count++] = (struct lint_finding){ severity, code, rule, other, text };
}

/* How findings name a rule: "rule 3 '/secrets' = none @100". */
static char *dup_named(const struct lint *lint, size_t index)
{
    const struct rule *rule = &lint->rules->rules.items[index];
    autodone(buf) struct buf text = BUF_EMPTY;

    buf_addf(&text, "rule %zu '", index + 1);
    buf_add_escaped(&text, rule->pattern, strlen(rule->pattern));
    buf_addf(&text, "' = %s", level_name(rule->level));
    if (rule->priority != 0)
        buf_addf(&text, " @%d", rule->priority);
    if (rule->preset)
        buf_addf(&text, " (preset %s)", rule->preset);
    return buf_dup_take(&text);
}

/* A cheap test before the costly one: both patterns begin with a literal name, and the names differ. */
static bool begin_apart(const struct pattern *a, const struct pattern *b)
{
    if (a->count == 0 || b->count == 0 || a->parts[0].any_depth || b->parts[0].any_depth)
        return false;
    const struct glob *x = &a->parts[0].glob, *y = &b->parts[0].glob;
    return x->shape == GLOB_LITERAL && y->shape == GLOB_LITERAL && strcmp(x->text, y->text) != 0;
}

static const char *sample_of(const struct lint *lint, const struct atom *atom)
{
    return lint->samples[atom - lint->rules->atoms.items];
}

/* This runs for so many pairs that most need a cheap answer: a sample of the inner pattern that the outer one does not
 * match. */
static bool lint_contains_pattern(struct lint *lint, const struct pattern *outer, const struct atom *inner)
{
    const char *sample = sample_of(lint, inner);

    lint->work++;
    if (begin_apart(outer, inner->pattern) || !pattern_matches(outer, sample, strlen(sample)))
        return false;
    lint->work += WORK_DECISION;
    return pattern_contains(outer, inner->pattern);
}

static bool lint_contains(struct lint *lint, const struct atom *outer, const struct atom *inner)
{
    return lint_contains_pattern(lint, outer->pattern, inner);
}

static bool lint_overlaps(struct lint *lint, const struct atom *a, const struct atom *b)
{
    if (begin_apart(a->pattern, b->pattern))
        return false;
    lint->work += WORK_DECISION;
    return pattern_overlaps(a->pattern, b->pattern);
}

/* Returns true if `other` decides wherever `atom` matches. */
static bool lint_always_beats(struct lint *lint, const struct atom *other, const struct atom *atom)
{
    if (other->class < atom->class || !lint_contains(lint, other, atom))
        return false;
    if (other->class > atom->class)
        return true;
    if (other->level != LEVEL_NONE && atom->level != LEVEL_NONE)
        return other->order > atom->order;
    /* Of a `none` and a grant in one class, one always decides only if both match the same paths; then it is the later one. */
    if (other->level == LEVEL_NONE && atom->level == LEVEL_NONE)
        return other->rule < atom->rule && lint_contains(lint, atom, other);
    return other->rule > atom->rule && lint_contains(lint, atom, other);
}

/* The rule that always beats this atom, or LINT_NO_RULE. */
static size_t find_beater(struct lint *lint, const struct atom *atom)
{
    const struct atom_list *atoms = &lint->rules->atoms;

    for (size_t i = 0; i < atoms->count && lint->work < WORK_MAX; i++) {
        const struct atom *other = &atoms->items[i];
        if (other->rule != atom->rule && lint_always_beats(lint, other, atom))
            return other->rule;
    }
    return LINT_NO_RULE;
}

static void lint_report_beaten(struct lint *lint, size_t index, size_t beater, const struct atom *atom)
{
    const struct rule *rule = &lint->rules->rules.items[index], *other = &lint->rules->rules.items[beater];
    autofree char *name = dup_named(lint, index);
    autofree char *by = dup_named(lint, beater);
    const char *sample = sample_of(lint, atom);

    /* If yet another rule hides it, the rule is merely superfluous. */
    if (rule->level == LEVEL_NONE && other->level != LEVEL_NONE && ruleset_level_of(lint->rules, sample) != LEVEL_NONE)
        lint_add_finding(lint, LINT_ERROR, "none-beaten", index, beater,
                         xprintf("%s hides nothing: the broader %s outranks it%s", name, by,
                                 other->priority > rule->priority ? "; give it a higher priority" : ""));
    else
        lint_add_finding(lint, LINT_WARNING, "never-wins", index, beater,
                         xprintf("%s can never win: %s decides wherever it matches", name, by));
}

/* A rule is beaten if each of its atoms is. */
static bool check_never_wins(struct lint *lint, size_t index, const struct atom *first, size_t count)
{
    size_t beater = LINT_NO_RULE;

    for (size_t i = 0; i < count; i++) {
        size_t by = find_beater(lint, &first[i]);
        if (by == LINT_NO_RULE)
            return false;
        if (beater == LINT_NO_RULE)
            beater = by;
    }
    lint_report_beaten(lint, index, beater, first);
    return true;
}

/* Returns true if the grant lies within what the `none` hides: its pattern and all beneath. */
static bool lint_lies_within(struct lint *lint, const struct atom *grant, const struct atom *none)
{
    autoptr(pattern) subtree = pattern_dup(none->pattern, 0);

    pattern_add_any_depth(subtree);
    return lint_contains_pattern(lint, subtree, grant);
}

/* Returns true if the grant outranks the `none` where they overlap, without being an exception within it. */
static bool lint_lays_open(struct lint *lint, const struct atom *none, const struct atom *grant)
{
    return grant->level != LEVEL_NONE && grant->class > none->class && lint_overlaps(lint, none, grant) &&
           !lint_lies_within(lint, grant, none);
}

/* The grants that outrank a `none` rule: their number, and one to name in the message. */
struct openers {
    size_t count;
    size_t first;
    int32_t highest_priority;
};

static void find_openers(struct lint *lint, const struct atom *none, size_t none_count, struct openers *ret)
{
    const struct atom_list *atoms = &lint->rules->atoms;
    size_t last = LINT_NO_RULE;

    *ret = (struct openers){ .first = LINT_NO_RULE, .highest_priority = INT32_MIN };
    for (size_t i = 0; i < atoms->count && lint->work < WORK_MAX; i++) {
        const struct atom *grant = &atoms->items[i];
        for (size_t k = 0; k < none_count && grant->rule != last; k++) {
            if (!lint_lays_open(lint, &none[k], grant))
                continue;
            last = grant->rule;
            ret->first = ret->count++ == 0 ? grant->rule : ret->first;
            if (rule_of(lint, grant)->priority > ret->highest_priority)
                ret->highest_priority = rule_of(lint, grant)->priority;
        }
    }
}

/* `/config/prod.yaml` without a type also covers what lies beneath it, but a name with an extension is a file. */
static bool looks_like_file(const struct atom *atom)
{
    const struct pattern *pattern = atom->pattern;

    if (!atom->cover || pattern->count == 0)
        return false;
    const char *dot = strrchr(pattern->parts[pattern->count - 1].glob.text, '.');
    return dot && dot != pattern->parts[pattern->count - 1].glob.text;
}

static void check_partly_beaten(struct lint *lint, size_t index, const struct atom *none, size_t count)
{
    struct openers openers;

    find_openers(lint, none, looks_like_file(none) ? 1 : count, &openers);
    if (openers.count == 0)
        return;
    autofree char *name = dup_named(lint, index);
    autofree char *by = dup_named(lint, openers.first);
    autofree char *more = openers.count > 1 ? xprintf(" and %zu more", openers.count - 1) : xdup("");
    lint_add_finding(lint, LINT_WARNING, "partly-beaten", index, openers.first,
                     xprintf("%s does not hide what %s%s matches too; priority %lld would", name, by, more,
                             (long long) openers.highest_priority + 1));
}

/* What a user's grant does to the `none` rules of a preset. */
struct opened_secrets {
    size_t rules; /* number of `none` rules that it outranks somewhere */
    size_t first;
    bool wholly;     /* one of them hides nothing any more */
    bool on_purpose; /* it lies within one of them: an exception */
};

static void find_opened(struct lint *lint, const struct atom *grant, struct opened_secrets *ret)
{
    const struct atom_list *atoms = &lint->rules->atoms;

    for (size_t i = 0; i < atoms->count && lint->work < WORK_MAX; i++) {
        const struct atom *none = &atoms->items[i];
        if (none->level != LEVEL_NONE || !rule_of(lint, none)->preset || none->class >= grant->class)
            continue;
        ret->on_purpose |= lint_lies_within(lint, grant, none);
        if (!lint_lays_open(lint, none, grant))
            continue;
        ret->first = ret->rules++ == 0 ? none->rule : ret->first;
        ret->wholly |= lint_contains(lint, grant, none);
    }
}

/* Reports the grant once instead of once per rule of the preset. */
static void check_opens_preset(struct lint *lint, size_t index, const struct atom *grant, size_t count)
{
    struct opened_secrets opened = { .first = LINT_NO_RULE };

    for (size_t i = 0; i < count && opened.rules == 0 && !opened.on_purpose; i++)
        find_opened(lint, &grant[i], &opened);
    if (opened.rules == 0 || opened.on_purpose)
        return;
    autofree char *name = dup_named(lint, index);
    autofree char *hides = dup_named(lint, opened.first);
    autofree char *more = opened.rules > 1 ? xprintf(" and %zu more", opened.rules - 1) : xdup("");
    lint_add_finding(
        lint, opened.wholly ? LINT_ERROR : LINT_WARNING, opened.wholly ? "none-beaten" : "partly-beaten", index, opened.first,
        xprintf("%s shows what %s%s should hide; give it a lower priority or name what it is for", name, hides, more));
}

static void check_literal_wildcard(struct lint *lint, size_t index)
{
    const struct rule *rule = &lint->rules->rules.items[index];

    if ((rule->type != RULE_FILE && rule->type != RULE_DIRECTORY) || !strpbrk(rule->pattern, "*?["))
        return;
    autofree char *name = dup_named(lint, index);
    lint_add_finding(
        lint, LINT_WARNING, "literal-wildcard", index, LINT_NO_RULE,
        rule->level == LEVEL_NONE
            ? xprintf("%s has type %s but wildcards: it hides both the exact name and what the wildcards match", name,
                      rule_type_name(rule->type))
            : xprintf("%s has type %s, so its wildcards are plain characters; leave the type out if they should match", name,
                      rule_type_name(rule->type)));
}

/* A directory that a write rule names is created when a sandbox starts, so it need not exist yet. */
static bool will_be_made(const struct rule *rule)
{
    size_t len = strlen(rule->pattern);

    return rule->level == LEVEL_WRITE && (rule->type == RULE_DIRECTORY || rule->pattern[len - 1] == '/' ||
                                          (len > 3 && strcmp(rule->pattern + len - 3, "/**") == 0));
}

static void check_matches_nothing(struct lint *lint, size_t index)
{
    const struct rule *rule = &lint->rules->rules.items[index];

    if (!lint->saw_any || rule->preset || lint->matched[index] || will_be_made(rule))
        return;
    autofree char *name = dup_named(lint, index);
    lint_add_finding(lint, LINT_WARNING, "matches-nothing", index, LINT_NO_RULE,
                     xprintf("%s matches nothing that exists; is it spelled right?", name));
}

static int cmp_findings(const void *a, const void *b)
{
    const struct lint_finding *x = a, *y = b;

    if (x->severity != y->severity)
        return x->severity > y->severity ? -1 : 1;
    if (x->rule != y->rule)
        return x->rule < y->rule ? -1 : 1;
    return strcmp(x->code, y->code);
}

static void lint_check_rule(struct lint *lint, size_t index, const struct atom *first, size_t count)
{
    bool hides = lint->rules->rules.items[index].level == LEVEL_NONE;

    if (!check_never_wins(lint, index, first, count) && hides)
        check_partly_beaten(lint, index, first, count);
    if (!hides)
        check_opens_preset(lint, index, first, count);
    check_literal_wildcard(lint, index);
    check_matches_nothing(lint, index);
}

void lint_finish(struct lint *lint)
{
    const struct atom_list *atoms = &lint->rules->atoms;

    for (size_t i = 0, next; i < atoms->count; i = next) {
        size_t index = atoms->items[i].rule;
        for (next = i; next < atoms->count && atoms->items[next].rule == index; next++)
            ;
        if (!lint->rules->rules.items[index].preset)
            lint_check_rule(lint, index, &atoms->items[i], next - i);
    }
    if (lint->work >= WORK_MAX)
        lint_add_finding(lint, LINT_WARNING, "cut-short", LINT_NO_RULE, LINT_NO_RULE,
                         xdup("too many rules to compare each with every other: some findings may be missing"));
    if (lint->count > 0)
        qsort(lint->findings, lint->count, sizeof(*lint->findings), cmp_findings);
}

const struct lint_finding *lint_findings(const struct lint *lint, size_t *ret_count)
{
    *ret_count = lint->count;
    return lint->findings;
}
