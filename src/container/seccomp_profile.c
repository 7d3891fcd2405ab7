#include "container/seccomp_profile.h"

#include "runtime/seccomp.h"

static json_t *test_of(const struct seccomp_test *test)
{
    static const char *const ops[] = { [SECCOMP_MASKED_EQUAL] = "SCMP_CMP_MASKED_EQ",
                                       [SECCOMP_NOT_EQUAL] = "SCMP_CMP_NE",
                                       [SECCOMP_GREATER] = "SCMP_CMP_GT",
                                       [SECCOMP_GREATER_OR_EQUAL] = "SCMP_CMP_GE" };
    bool is_masked = test->op == SECCOMP_MASKED_EQUAL;

    return json_pack("{s:i, s:s, s:I, s:I}", "index", (int) test->arg, "op", ops[test->op], "value",
                     (json_int_t) (is_masked ? test->mask : test->value), "valueTwo",
                     (json_int_t) (is_masked ? test->value : 0));
}

static int add_tests(const struct seccomp_rule *rule, const struct seccomp_test *tests, unsigned count, void *list)
{
    json_t *args = json_array();

    for (unsigned i = 0; i < count; i++)
        json_array_append_new(args, test_of(&tests[i]));
    json_array_append_new(list, json_pack("{s:[s], s:s, s:i, s:o}", "names", rule->name, "action", "SCMP_ACT_ERRNO", "errnoRet",
                                          rule->error, "args", args));
    return 0;
}

/* Without a list of architectures only the machine's own is allowed, and calls of another kill the process. */
json_t *seccomp_profile_new(void)
{
    json_t *list = json_array();
    size_t count;
    const struct seccomp_rule *rules = seccomp_rules(&count);

    for (size_t i = 0; i < count; i++)
        seccomp_rule_expand(&rules[i], add_tests, list);
    return json_pack("{s:s, s:o}", "defaultAction", "SCMP_ACT_ALLOW", "syscalls", list);
}
