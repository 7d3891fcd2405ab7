/*
 * A rule as a person wrote it, and the list it stands in.
 *
 * A rule_list is plain data: what was given is kept as given, so it can be echoed, saved and shown. Every rule in a list
 * has been checked; bad ones never get in. What the rules mean together is the ruleset's business.
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
    RULE_UNSPECIFIED, /* inferred from the pattern, as GLOB is */
    RULE_GLOB,
    RULE_DIRECTORY,
    RULE_FILE,
};

struct rule {
    char *pattern; /* owned */
    enum rule_type type;
    enum level level;
    int32_t priority;
    const char *preset; /* static name of the preset it came from; NULL for a user's own */
};

struct rule_list {
    struct rule *items; /* owned */
    size_t count;
    size_t cap;
};

#define RULE_LIST_EMPTY ((struct rule_list){ 0 })

void rule_list_done(struct rule_list *list);

/* Checks and appends a copy. On failure the list is unchanged and the error names the rule by number and pattern. The
 * pattern comes with its length because a NUL inside it must be seen to be refused. */
int rule_list_add(struct rule_list *list, const char *pattern, size_t pattern_len, enum rule_type type, enum level level,
                  int32_t priority, struct err *err);

/* The command line's short form: PATTERN=LEVEL or PATTERN=LEVEL@PRIORITY. The last `=` counts, patterns may contain some. */
int rule_list_add_short(struct rule_list *list, const char *text, struct err *err);

int rule_list_add_all(struct rule_list *list, const struct rule_list *more, struct err *err);

const char *rule_type_name(enum rule_type type);
bool rule_type_parse(const char *name, enum rule_type *ret_type);

/* A priority as decimal text: all of it, within int32. */
bool rule_priority_parse(const char *text, int32_t *ret_priority);

/* Whether every path may be written: there is a rule for all of them, and none that grants less. */
bool rule_list_forbids_nothing(const struct rule_list *list);
