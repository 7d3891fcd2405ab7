#include "policy/policy_draft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "policy/policy_file.h"
#include "policy/preset.h"

static const char *const policy_keys[] = {
    [POLICY_KEY_VERSION] = "version",
    [POLICY_KEY_EXTENDS] = "extends",
    [POLICY_KEY_RULES] = "rules",
};

static const char *const rule_keys[] = {
    [RULE_KEY_PATTERN] = "pattern",
    [RULE_KEY_PERMISSION] = "permission",
    [RULE_KEY_TYPE] = "type",
    [RULE_KEY_PRIORITY] = "priority",
};

char *policy_dup_shown(const char *bytes, size_t len)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    buf_add_excerpt(&shown, bytes, len);
    return buf_dup_take(&shown);
}

int policy_reject_number(const char *key, const char *shown, struct err *err)
{
    return err_invalid(err, "%s must be a whole number from %d to %d, not %s", key, INT32_MIN, INT32_MAX, shown);
}

int policy_reject_string(const char *key, const char *shown, struct err *err)
{
    return err_invalid(err, "%s must be a number, not the string %s: leave the quotes out", key, shown);
}

int policy_reject_version(const char *shown, struct err *err)
{
    return err_invalid(err, "version must be 1, not %s", shown);
}

int policy_check_size(size_t len, struct err *err)
{
    if (len <= POLICY_TEXT_MAX)
        return 0;
    return err_set(err, ERR_INVALID_ARGUMENT, -EFBIG, "the text is larger than %zu MiB", POLICY_TEXT_MAX >> 20);
}

void policy_skip_byte_order_mark(const char **text, size_t *len)
{
    if (*len >= 3 && memcmp(*text, "\xEF\xBB\xBF", 3) == 0) {
        *text += 3;
        *len -= 3;
    }
}

static int accept_key(const char *const *names, size_t count, const char *all, unsigned *seen, const char *key, size_t len,
                      struct err *err)
{
    autofree char *shown = policy_dup_shown(key, len);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(shown, names[i]) != 0)
            continue;
        if (*seen & 1u << i)
            return err_invalid(err, "the key '%s' is given twice", shown);
        *seen |= 1u << i;
        return (int) i;
    }
    return err_invalid(err, "unknown key '%s' (one of %s)", shown, all);
}

void rule_draft_done(struct rule_draft *rule)
{
    free(rule->pattern);
    *rule = (struct rule_draft){ 0 };
}

int rule_draft_accept_key(struct rule_draft *rule, const char *key, size_t len, struct err *err)
{
    return accept_key(rule_keys, ARRAY_LEN(rule_keys), RULE_KEYS, &rule->seen, key, len, err);
}

int rule_draft_set_text(struct rule_draft *rule, enum rule_key key, const char *bytes, size_t len, struct err *err)
{
    /* Names are compared in their shown form: only the name itself is shown as the name, whatever a NUL would cut off. */
    autofree char *shown = policy_dup_shown(bytes, len);

    switch (key) {
    case RULE_KEY_PATTERN:
        rule->pattern = xdupn(bytes, len);
        rule->pattern_len = len;
        return 0;
    case RULE_KEY_PERMISSION:
        if (!level_parse(shown, &rule->level))
            return err_invalid(err, "unknown permission '%s' (one of " LEVEL_NAMES ")", shown);
        return 0;
    case RULE_KEY_TYPE:
        if (!rule_type_parse(shown, &rule->type))
            return err_invalid(err, "unknown type '%s' (one of glob, directory, file)", shown);
        return 0;
    case RULE_KEY_PRIORITY:
        break;
    }
    return err_set(err, ERR_INTERNAL, -EINVAL, "priority is no text");
}

int rule_draft_check(const struct rule_draft *rule, struct err *err)
{
    if (!(rule->seen & 1u << RULE_KEY_PATTERN))
        return err_invalid(err, "the key 'pattern' is missing");
    if (!(rule->seen & 1u << RULE_KEY_PERMISSION))
        return err_invalid(err, "the key 'permission' is missing");
    return 0;
}

void policy_draft_done(struct policy_draft *policy)
{
    rule_list_done(&policy->base);
    rule_list_done(&policy->rules);
    *policy = (struct policy_draft){ 0 };
}

int policy_draft_accept_key(struct policy_draft *policy, const char *key, size_t len, struct err *err)
{
    return accept_key(policy_keys, ARRAY_LEN(policy_keys), POLICY_KEYS, &policy->seen, key, len, err);
}

int policy_draft_set_extends(struct policy_draft *policy, const char *bytes, size_t len, struct err *err)
{
    autofree char *name = xdupn(bytes, len);

    if (strlen(name) != len)
        return err_invalid(err, "the name of the preset contains a NUL byte");
    return preset_add(name, &policy->base, err);
}

int policy_draft_add_rule(struct policy_draft *policy, const struct rule_draft *rule, struct err *err)
{
    return rule_list_add(&policy->rules, rule->pattern, rule->pattern_len, rule->type, rule->level, rule->priority, err);
}

int policy_draft_check(const struct policy_draft *policy, struct err *err)
{
    if (!(policy->seen & 1u << POLICY_KEY_VERSION))
        return err_invalid(err, "the key 'version' is missing, it must be 1");
    if (!(policy->seen & (1u << POLICY_KEY_RULES | 1u << POLICY_KEY_EXTENDS)))
        return err_invalid(err, "neither 'rules' nor 'extends' is given");
    return 0;
}

int policy_draft_finish(const struct policy_draft *policy, struct rule_list *rules, struct err *err)
{
    autodone(rule_list) struct rule_list all = RULE_LIST_EMPTY;
    int r;

    r = rule_list_add_all(&all, &policy->base, err);
    if (r >= 0)
        r = rule_list_add_all(&all, &policy->rules, err);
    if (r >= 0)
        r = rule_list_add_all(rules, &all, err);
    return r;
}
