/*
 * What other rules would change in the tree that a sandbox is over: which paths would be revealed, hidden, or get another level, and what
 * is suspicious about the rules (policy/lint.h). The walk is bounded; the result says whether it is incomplete.
 */
#pragma once

#include "policy/lint.h"
#include "service/sandbox_rules.h"

struct rule_change {
    char *path; /* owned */
    enum level was, now;
};

struct rule_preview_finding {
    enum lint_severity severity;
    const char *code;   /* a literal */
    size_t rule, other; /* LINT_NO_RULE: none */
    char *text;         /* owned */
};

struct rule_preview {
    struct rule_list rules;      /* owned: the rules that would apply */
    struct rule_change *changes; /* owned; paths that would be revealed come first */
    size_t count, cap;
    uint64_t paths, revealed, hidden, changed; /* counted, whether or not they are listed */
    bool is_incomplete;                        /* the walk did not visit all paths */
    char **
        patterns; /* owned, each item too: patterns whose rules hide files that do not exist yet, and that would no longer do so */
    size_t pattern_count, pattern_cap;
    struct rule_preview_finding *findings; /* owned */
    size_t finding_count;
};

struct rule_preview_request {
    const struct rule_edit *edit; /* NULL: the sandbox's current rules */
    const char *const *paths;     /* check only these; NULL: all */
    size_t path_count, max_changes;
};

int rule_preview_run(struct rule_base *base, const struct caller *caller, const struct rule_preview_request *wish,
                     struct rule_preview *ret, struct err *err);
void rule_preview_done(struct rule_preview *preview);
