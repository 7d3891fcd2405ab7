/*
 * What other rules would mean for the tree that a sandbox is over: which paths would be shown, hidden or open for more or less, and what is
 * odd about them (policy/lint.h). The walk is bounded; what it did not come to is said.
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
    struct rule_list rules;      /* owned: that would hold */
    struct rule_change *changes; /* owned; what would be revealed first */
    size_t count, cap;
    uint64_t paths, revealed, hidden, changed; /* counted, kept or not */
    bool is_incomplete;                        /* there are paths that nobody looked at */
    char **patterns; /* owned, each too: of rules that hide files which are not there yet, and would not any more */
    size_t pattern_count, pattern_cap;
    struct rule_preview_finding *findings; /* owned */
    size_t finding_count;
};

struct rule_preview_request {
    const struct rule_edit *edit; /* NULL: the rules that it has */
    const char *const *paths;     /* only these; none: all */
    size_t path_count, max_changes;
};

int rule_preview_run(struct rule_base *base, const struct caller *caller, const struct rule_preview_request *wish,
                     struct rule_preview *ret, struct err *err);
void rule_preview_done(struct rule_preview *preview);
