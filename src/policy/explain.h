/*
 * Why a path has the level it has: the rule that decided, and every other rule that matched, with the reason it lost.
 *
 * For people and tests. Goes through all rules one by one and does not use the automaton, so it can also bear witness
 * against it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "policy/ruleset.h"

#define EXPLAIN_NO_RULE SIZE_MAX

enum explain_cause {
    EXPLAIN_GRANTED,   /* `rule` grants the level */
    EXPLAIN_HIDDEN,    /* `rule` is a `none` that hides the path */
    EXPLAIN_UNMATCHED, /* no rule matches: `none` */
    EXPLAIN_BENEATH,   /* `rule` is a `none` that hides the directory `hidden_dir` above, and its beaten grant is listed */
};

struct explained_rule {
    size_t rule;  /* index into ruleset_rules() */
    char *reason; /* owned; why it did not decide */
};

struct explanation {
    char *path; /* owned; clean */
    enum level level;
    enum explain_cause cause;
    size_t rule;                   /* EXPLAIN_NO_RULE when unmatched */
    char *hidden_dir;              /* owned; EXPLAIN_BENEATH only */
    bool may_be_passage;           /* level none, but as a directory it is shown when something visible exists below */
    struct explained_rule *others; /* owned */
    size_t other_count;
};

/* `path` is cleaned first; one that leaves the root is refused. */
int explain_path(struct ruleset *rules, const char *path, struct explanation **ret_explanation, struct err *err);
void explanation_free(struct explanation *explanation);
DEFINE_AUTOPTR(explanation, explanation_free);
