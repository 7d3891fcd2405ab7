#include "container/seccomp_profile.h"

#include "runtime/seccomp.h"

#define LOW_32 0xffffffffULL

static json_t *seccomp_profile_condition(unsigned arg, const char *op, uint64_t value, uint64_t second)
{
    return json_pack("{s:i, s:s, s:I, s:I}", "index", (int) arg, "op", op, "value", (json_int_t) value, "valueTwo",
                     (json_int_t) second);
}

/* Takes `args`, an array. */
static void seccomp_profile_append(json_t *list, const struct seccomp_rule *rule, json_t *args)
{
    json_array_append_new(list, json_pack("{s:[s], s:s, s:i, s:o}", "names", rule->name, "action", "SCMP_ACT_ERRNO", "errnoRet",
                                          rule->error, "args", args));
}

static void add_masked(json_t *list, const struct seccomp_rule *rule, uint64_t mask, uint64_t value)
{
    seccomp_profile_append(list, rule,
                           json_pack("[o]", seccomp_profile_condition(rule->arg, "SCMP_CMP_MASKED_EQ", mask, value)));
}

/* "Any of these bits" becomes a rule for each bit. */
static void add_any_bit(json_t *list, const struct seccomp_rule *rule)
{
    for (uint64_t bit = 1; bit; bit <<= 1)
        if (rule->value & bit)
            add_masked(list, rule, bit, bit);
}

/* Some bit differs from the highest. */
static void add_mixed(json_t *list, const struct seccomp_rule *rule)
{
    const uint64_t top = 1ULL << 31;

    for (uint64_t bit = 1; bit < top; bit <<= 1) {
        add_masked(list, rule, top | bit, bit);
        add_masked(list, rule, top | bit, top);
    }
}

static void add_rule(json_t *list, const struct seccomp_rule *rule)
{
    switch (rule->when) {
    case SECCOMP_ALWAYS:
        seccomp_profile_append(list, rule, json_array());
        break;
    case SECCOMP_ANY_BIT:
        add_any_bit(list, rule);
        break;
    case SECCOMP_IS:
        add_masked(list, rule, LOW_32, rule->value);
        break;
    case SECCOMP_FROM:
        seccomp_profile_append(list, rule,
                               json_pack("[o]", seccomp_profile_condition(rule->arg, "SCMP_CMP_GE", rule->value, 0)));
        break;
    case SECCOMP_IS_AND_NEXT_NOT_ZERO:
        seccomp_profile_append(list, rule,
                               json_pack("[o, o]",
                                         seccomp_profile_condition(rule->arg, "SCMP_CMP_MASKED_EQ", LOW_32, rule->value),
                                         seccomp_profile_condition(2, "SCMP_CMP_NE", 0, 0)));
        break;
    case SECCOMP_IS_AND_NEXT_ABOVE:
        seccomp_profile_append(
            list, rule,
            json_pack("[o, o]", seccomp_profile_condition(rule->arg, "SCMP_CMP_MASKED_EQ", LOW_32, rule->value & LOW_32),
                      seccomp_profile_condition(2, "SCMP_CMP_GT", rule->value >> 32, 0)));
        break;
    case SECCOMP_MIXED:
        add_mixed(list, rule);
        break;
    }
}

/* Without a list of architectures only the machine's own is allowed, and calls of another kill the process. */
json_t *seccomp_profile_new(void)
{
    json_t *list = json_array();
    size_t count;
    const struct seccomp_rule *rules = seccomp_rules(&count);

    for (size_t i = 0; i < count; i++)
        add_rule(list, &rules[i]);
    return json_pack("{s:s, s:o}", "defaultAction", "SCMP_ACT_ALLOW", "syscalls", list);
}
