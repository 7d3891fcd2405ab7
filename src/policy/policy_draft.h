/*
 * What the readers of YAML and JSON share: a policy and a rule while they are being read.
 *
 * The readers know their syntax, lines and types; which keys there are and what their values may be is known here alone.
 * Errors come without line and, but for policy_draft_add_rule(), without the rule's number: the reader knows both.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "policy/rule.h"

#define POLICY_KEYS "version, extends, rules"
#define RULE_KEYS "pattern, permission, type, priority"

enum policy_key {
    POLICY_KEY_VERSION,
    POLICY_KEY_EXTENDS,
    POLICY_KEY_RULES,
};

enum rule_key {
    RULE_KEY_PATTERN,
    RULE_KEY_PERMISSION,
    RULE_KEY_TYPE,
    RULE_KEY_PRIORITY,
};

struct rule_draft {
    unsigned seen; /* a bit for each rule_key */
    char *pattern; /* owned */
    size_t pattern_len;
    enum rule_type type;
    enum level level;
    int32_t priority;
};

void rule_draft_done(struct rule_draft *rule);

/* The rule_key of that name, noted as seen. An unknown or repeated one is refused. */
int rule_draft_accept_key(struct rule_draft *rule, const char *key, size_t len, struct err *err);

/* For the keys with text: all but priority. The bytes may contain anything. */
int rule_draft_set_text(struct rule_draft *rule, enum rule_key key, const char *bytes, size_t len, struct err *err);

/* Whether all that a rule must have was seen. */
int rule_draft_check(const struct rule_draft *rule, struct err *err);

struct policy_draft {
    unsigned seen;          /* a bit for each policy_key */
    struct rule_list base;  /* of the preset that is extended */
    struct rule_list rules; /* the text's own, apart from the base so that their numbers are those of the text */
};

void policy_draft_done(struct policy_draft *policy);
int policy_draft_accept_key(struct policy_draft *policy, const char *key, size_t len, struct err *err);
int policy_draft_set_extends(struct policy_draft *policy, const char *bytes, size_t len, struct err *err);

/* A complete rule. The error names it by number and pattern. */
int policy_draft_add_rule(struct policy_draft *policy, const struct rule_draft *rule, struct err *err);

/* Whether all that a policy file must have was seen. */
int policy_draft_check(const struct policy_draft *policy, struct err *err);

/* Appends everything to the caller's list, or nothing. */
int policy_draft_finish(const struct policy_draft *policy, struct rule_list *rules, struct err *err);

int policy_check_size(size_t len, struct err *err);
void policy_skip_byte_order_mark(const char **text, size_t *len);

/* Enough of a stranger's text to recognise it by, fit for a one-line message. Text that needs neither escaping nor
 * shortening is given as it is, and no other text is given so. */
char *policy_dup_shown(const char *bytes, size_t len);

/* The errors that both readers give. `shown` is in quotes already where it is text. */
int policy_reject_number(const char *key, const char *shown, struct err *err);
int policy_reject_string(const char *key, const char *shown, struct err *err);
int policy_reject_version(const char *shown, struct err *err);
