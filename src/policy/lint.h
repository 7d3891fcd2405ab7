/*
 * What is probably not meant: rules that can never win, secrets that a broader grant lays open, patterns that match nothing.
 *
 *     lint = lint_new(rules);
 *     lint_add_path(lint, "/src/a.py");     for every path of the codebase, if there is one at hand
 *     lint_finish(lint);
 *     lint_findings(lint, &count);
 *
 * Only a user's own rules are looked at: those of a preset are meant to work together, and are met here only as what a
 * user's rule beats or is beaten by.
 */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"
#include "policy/ruleset.h"

#define LINT_NO_RULE SIZE_MAX

enum lint_severity {
    LINT_WARNING,
    LINT_ERROR, /* something meant to be hidden is shown */
};

struct lint_finding {
    enum lint_severity severity;
    const char
        *code;    /* static: "none-beaten", "partly-beaten", "never-wins", "matches-nothing", "literal-wildcard", "cut-short" */
    size_t rule;  /* index of the rule it is about; LINT_NO_RULE for the whole */
    size_t other; /* the rule that beats it or that it beats, or LINT_NO_RULE */
    char *text;   /* owned */
};

struct lint;

/* `rules` is borrowed and outlives the lint. */
struct lint *lint_new(struct ruleset *rules);
void lint_free(struct lint *lint);
DEFINE_AUTOPTR(lint, lint_free);

/* A path that exists, clean and absolute. Without any, nothing is said about patterns that match nothing. */
void lint_add_path(struct lint *lint, const char *path);

void lint_finish(struct lint *lint);

/* Errors first, then in the order of the rules. */
const struct lint_finding *lint_findings(const struct lint *lint, size_t *ret_count);
