/*
 * The JSON reader: whatever the text, the list is either longer by rules that compile, or as it was. And what both readers
 * take for a policy is the same policy to both, since JSON is YAML.
 */
#include "fuzz.h"

#include "policy/policy_file.h"
#include "policy/ruleset.h"

/* Characters that are ordinary in JSON and line breaks in YAML 1.1: NEL, LS, PS. */
static bool breaks_lines_in_yaml_only(const uint8_t *data, size_t size)
{
    return memmem(data, size, "\xC2\x85", 2) || memmem(data, size, "\xE2\x80\xA8", 3) || memmem(data, size, "\xE2\x80\xA9", 3);
}

static void require_same(const struct rule_list *a, const struct rule_list *b)
{
    require(a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        require(strcmp(a->items[i].pattern, b->items[i].pattern) == 0);
        require(a->items[i].type == b->items[i].type);
        require(a->items[i].level == b->items[i].level);
        require(a->items[i].priority == b->items[i].priority);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    autodone(rule_list) struct rule_list from_yaml = RULE_LIST_EMPTY;
    autoptr(ruleset) compiled = NULL;
    struct err err = ERR_NONE;
    int r;

    r = policy_parse_json((const char *) data, size, &rules, &err);
    if (r < 0) {
        require_refusal(r, &err);
        require(rules.count == 0);
        return 0;
    }
    require(err.code == ERR_OK);
    require(ruleset_new(&rules, NULL, &compiled, &err) == 0);
    ruleset_level_of(compiled, "/old/a/b");
    if (!breaks_lines_in_yaml_only(data, size) && policy_parse_yaml((const char *) data, size, &from_yaml, NULL) == 0)
        require_same(&rules, &from_yaml);
    return 0;
}
