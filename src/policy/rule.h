/*
 * A rule as the user wrote it, and a list of rules.
 *
 * A rule_list keeps its rules unchanged, so they can be printed and saved. Every rule in a list is valid: adding an invalid one
 * fails. What the rules mean together is decided by the ruleset (ruleset.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "policy/level.h"

#define RULES_MAX 10000

enum rule_type {
    RULE_UNSPECIFIED, /* inferred from the pattern; RULE_GLOB is treated in the same way */
    RULE_GLOB,
    RULE_DIRECTORY,
    RULE_FILE,
};

struct rule {
    char *pattern; /* owned */
    enum rule_type type;
    enum level level;
    int32_t priority;
    const char *preset; /* static name of the rule's preset; NULL for a user's own rule */
};

struct rule_list {
    struct rule *items; /* owned */
    size_t count;
    size_t cap;
};

#define RULE_LIST_EMPTY ((struct rule_list){ 0 })

void rule_list_done(struct rule_list *list);

/* Checks the rule and appends a copy. On failure the list is unchanged and the error names the rule by its number and pattern.
 * The caller passes the pattern's length, so that a NUL byte in it can be refused. */
int rule_list_add(struct rule_list *list, const char *pattern, size_t pattern_len, enum rule_type type, enum level level,
                  int32_t priority, struct err *err);

/* Parses the short form of the command line: PATTERN=LEVEL or PATTERN=LEVEL@PRIORITY. A pattern may contain `=`: the last one
 * separates. */
int rule_list_add_short(struct rule_list *list, const char *text, struct err *err);

int rule_list_add_all(struct rule_list *list, const struct rule_list *more, struct err *err);

const char *rule_type_name(enum rule_type type);
bool rule_type_parse(const char *name, enum rule_type *ret_type);

/* Parses a decimal number within int32. Nothing may precede or follow it. */
bool rule_priority_parse(const char *text, int32_t *ret_priority);

/* Returns true if every path may be written: one rule grants that for all paths, and no rule grants less. */
bool rule_list_forbids_nothing(const struct rule_list *list);
