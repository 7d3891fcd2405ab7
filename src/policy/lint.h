/*
 * Finds rules that are probably mistakes: rules that can never win, secrets that a broader grant shows, patterns that match
 * nothing.
 *
 *     lint = lint_new(rules);
 *     lint_add_path(lint, "/src/a.py");     for every path of the codebase, if there is one
 *     lint_finish(lint);
 *     lint_findings(lint, &count);
 *
 * It checks a user's own rules only. The rules of a preset are meant to work together; they only appear as what a user's rule
 * beats or is beaten by.
 */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"
#include "policy/ruleset.h"

#define LINT_NO_RULE SIZE_MAX

enum lint_severity {
    LINT_WARNING,
    LINT_ERROR, /* something that was meant to be hidden is shown */
};

struct lint_finding {
    enum lint_severity severity;
    const char *code; /* static, see docs/policy.md */
    size_t rule;      /* index of the rule; LINT_NO_RULE for the list as a whole */
    size_t other;     /* the rule that beats it or that it beats, or LINT_NO_RULE */
    char *text;       /* owned */
};

struct lint;

/* `rules` is borrowed and outlives the lint. */
struct lint *lint_new(struct ruleset *rules);
void lint_free(struct lint *lint);
DEFINE_AUTOPTR(lint, lint_free);

/* Adds an existing path, clean and absolute. Without any, lint reports no patterns that match nothing. */
void lint_add_path(struct lint *lint, const char *path);

void lint_finish(struct lint *lint);

/* Errors come first, then warnings; each in the order of the rules. */
const struct lint_finding *lint_findings(const struct lint *lint, size_t *ret_count);
