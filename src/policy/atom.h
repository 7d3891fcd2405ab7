/*
 * One meaning of a rule: a pattern with a rank.
 *
 * A rule has one atom or a few. A path without wildcards counts as a file for the path itself and as a glob for what lies
 * beneath it; a `none` rule whose text can be read in two ways holds in both. All ranking compares atoms.
 *
 * The class of an atom combines its priority with file > directory > glob in one number.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/pattern.h"
#include "policy/rule.h"

enum atom_rank {
    ATOM_GLOB = 1,
    ATOM_DIRECTORY = 2,
    ATOM_FILE = 3,
};

#define ATOM_CLASS_NONE INT64_MIN /* below every rule */

struct atom {
    uint32_t rule; /* index into the rule list */
    enum level level;
    int64_t class;
    struct pattern *pattern; /* owned */
    struct pattern *cover;   /* owned; all that the rule covers if that is more than `pattern`, else NULL */
    struct specificity specificity;
    uint32_t order; /* rank among all atoms by specificity, ties by rule; the higher one wins. Set by the ruleset. */
};

struct atom_list {
    struct atom *items; /* owned */
    size_t count;
    size_t cap;
};

void atom_list_done(struct atom_list *list);

static inline int64_t atom_class(int32_t priority, enum atom_rank rank)
{
    return (int64_t) priority * 4 + rank;
}

static inline enum atom_rank atom_class_rank(int64_t class)
{
    return (enum atom_rank)(class & 3);
}

static inline int32_t atom_class_priority(int64_t class)
{
    return (int32_t) ((class - (class & 3)) / 4);
}

static inline const struct pattern *atom_cover(const struct atom *atom)
{
    return atom->cover ? atom->cover : atom->pattern;
}

const char *atom_rank_name(enum atom_rank rank);

/* Appends the atoms of a rule. `strip_workspace`: the codebase has no directory "workspace" of its own, so a leading
 * /workspace/ in a pattern means the root. Fails only for rules that rule_list_add() refuses. */
int atom_list_add_rule(struct atom_list *list, const struct rule *rule, uint32_t index, bool strip_workspace, struct err *err);

/* Checks the rule's pattern; the error tells what is wrong with it. */
int atom_check_rule(const struct rule *rule, struct err *err);
