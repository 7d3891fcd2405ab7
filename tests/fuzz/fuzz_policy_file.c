/* Policy files: whatever the text, the list is either longer by rules that compile, or as it was. */
#include "fuzz.h"

#include "policy/policy_file.h"
#include "policy/ruleset.h"

typedef int (*parse_fn)(const char *text, size_t len, struct rule_list *rules, struct err *err);

static void fuzz_parse(parse_fn parse, const uint8_t *data, size_t size)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    autoptr(ruleset) compiled = NULL;
    struct err err = ERR_NONE;
    int r;

    require(rule_list_add(&rules, "/old", 4, RULE_FILE, LEVEL_VIEW, 1, NULL) == 0);
    r = parse((const char *) data, size, &rules, &err);
    require(strcmp(rules.items[0].pattern, "/old") == 0);
    if (r < 0) {
        require_refusal(r, &err);
        require(rules.count == 1);
        return;
    }
    require(err.code == ERR_OK);
    require(ruleset_new(&rules, NULL, &compiled, &err) == 0);
    ruleset_level_of(compiled, "/old/a/b");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_parse(policy_parse_yaml, data, size);
    fuzz_parse(policy_parse_json, data, size);
    return 0;
}
