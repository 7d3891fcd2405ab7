/*
 * Why a path has its level: the rule that decided, and every other rule that matched, with the reason why it lost.
 *
 * It is for people and tests. It matches all rules one by one without the automaton, so tests can compare the two.
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
    EXPLAIN_HIDDEN,    /* `rule` is a `none` rule that hides the path */
    EXPLAIN_UNMATCHED, /* no rule matches, so the level is none */
    EXPLAIN_BENEATH,   /* `rule` is a `none` rule that hides the directory `hidden_dir` above; `others` has the grant it beat */
};

struct explained_rule {
    size_t rule;  /* index into ruleset_rules() */
    char *reason; /* owned; why it did not decide */
};

struct explanation {
    char *path; /* owned; clean */
    enum level level;
    enum explain_cause cause;
    size_t rule;         /* EXPLAIN_NO_RULE if unmatched */
    char *hidden_dir;    /* owned; EXPLAIN_BENEATH only */
    bool may_be_passage; /* the level is none, but a directory of that name is shown if something visible exists below it */
    struct explained_rule *others; /* owned */
    size_t other_count;
};

/* `path` is cleaned first. A path that leaves the root is refused. */
int explain_path(struct ruleset *rules, const char *path, struct explanation **ret_explanation, struct err *err);
void explanation_free(struct explanation *explanation);
DEFINE_AUTOPTR(explanation, explanation_free);
