/* What the tests of the two languages of policy files share. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "policy/pattern.h"
#include "policy/policy_file.h"

/* Text with its length, as it may hold NULs. */
#define TEXT(s) (s), sizeof(s) - 1

/* The language: whoever includes this says which. */
static int parse(const char *text, size_t len, struct rule_list *rules, struct err *err);

static inline void add_one(struct rule_list *rules)
{
    assert_int_equal(rule_list_add(rules, "/old", 4, RULE_GLOB, LEVEL_VIEW, 3, NULL), 0);
}

static inline void assert_refused(const char *text, size_t len, const char *message)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    struct err err = ERR_NONE;

    add_one(&rules);
    assert_true(parse(text, len, &rules, &err) < 0);
    assert_string_equal(err.text, message);
    assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
    assert_int_equal(rules.count, 1);
    assert_string_equal(rules.items[0].pattern, "/old");
    assert_true(parse(text, len, &rules, NULL) < 0);
    assert_int_equal(rules.count, 1);
}

static inline void assert_taken(const char *text, size_t len, size_t count, struct rule_list *rules)
{
    struct err err = ERR_NONE;

    if (parse(text, len, rules, &err) < 0)
        fail_msg("refused: %s", err.text);
    assert_int_equal(rules->count, count);
}

static inline void assert_rule(const struct rule *rule, const char *pattern, enum rule_type type, enum level level,
                               int32_t priority)
{
    assert_string_equal(rule->pattern, pattern);
    assert_int_equal(rule->type, type);
    assert_int_equal(rule->level, level);
    assert_int_equal(rule->priority, priority);
}
