/* Rules for tests in one line: "glob:PATTERN=LEVEL@PRIORITY; PATTERN=LEVEL", types unspecified unless said. */
#pragma once

#include <string.h>

#include "base/mem.h"
#include "policy/preset.h"
#include "policy/rule.h"
#include "policy/ruleset.h"

static inline void add_typed_rule(struct rule_list *list, char *text, enum rule_type type)
{
    char *equals = strrchr(text, '='), *at = strchr(equals, '@');
    struct err err = ERR_NONE;
    int32_t priority = 0;
    enum level level;

    *equals = '\0';
    if (at) {
        *at = '\0';
        assert_true(rule_priority_parse(at + 1, &priority));
    }
    assert_true(level_parse(equals + 1, &level));
    if (rule_list_add(list, text, strlen(text), type, level, priority, &err) < 0)
        fail_msg("%s", err.text);
}

static inline void add_rule_text(struct rule_list *list, char *text)
{
    static const struct {
        const char *prefix;
        enum rule_type type;
    } types[] = { { "glob:", RULE_GLOB }, { "directory:", RULE_DIRECTORY }, { "file:", RULE_FILE } };
    struct err err = ERR_NONE;

    text += strspn(text, " ");
    if (strncmp(text, "preset:", 7) == 0) {
        if (preset_add(text + 7, list, &err) < 0)
            fail_msg("%s", err.text);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        size_t len = strlen(types[i].prefix);
        if (strncmp(text, types[i].prefix, len) == 0) {
            add_typed_rule(list, text + len, types[i].type);
            return;
        }
    }
    if (rule_list_add_short(list, text, &err) < 0)
        fail_msg("%s", err.text);
}

static inline struct rule_list rules_from_text(const char *text)
{
    struct rule_list list = RULE_LIST_EMPTY;
    char *copy = xdup(text), *save = NULL;

    for (char *rule = strtok_r(copy, ";", &save); rule; rule = strtok_r(NULL, ";", &save))
        add_rule_text(&list, rule);
    free(copy);
    return list;
}

static inline struct ruleset *ruleset_from_text(const char *text, bool workspace_is_real)
{
    struct rule_list list = rules_from_text(text);
    struct ruleset_options options = { .workspace_is_real = workspace_is_real };
    struct ruleset *rules = NULL;
    struct err err = ERR_NONE;

    if (ruleset_new(&list, &options, &rules, &err) < 0)
        fail_msg("%s", err.text);
    rule_list_done(&list);
    return rules;
}
