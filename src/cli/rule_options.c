#include "cli/rule_options.h"

#include <stdlib.h>

#include "base/mem.h"

void rule_messages_done(struct rule_messages *messages)
{
    for (size_t i = 0; i < messages->count; i++)
        free(messages->items[i]);
    free(messages->items);
    rule_list_done(&messages->rules);
    *messages = (struct rule_messages){ 0 };
}

void rule_messages_make(const struct rule_list *rules, size_t from, struct rule_messages *ret)
{
    ret->items = xalloc((rules->count + 1) * sizeof(*ret->items));
    for (size_t i = from; i < rules->count; i++) {
        const struct rule *rule = &rules->items[i];
        Sandbox__V1__PermissionRule *message = xnew(Sandbox__V1__PermissionRule);

        sandbox__v1__permission_rule__init(message);
        message->pattern = rule->pattern;
        message->type = (Sandbox__V1__PatternType) rule->type; /* the numbers are equal */
        message->permission = (Sandbox__V1__Permission) ((int) rule->level + 1);
        message->priority = rule->priority;
        ret->items[ret->count++] = message;
    }
}

int rule_messages_load(const struct policy_options *options, struct rule_messages *ret, struct err *err)
{
    struct policy_options own = *options;
    int r;

    own.preset = NULL;
    *ret = (struct rule_messages){ 0 };
    if (own.file_count == 0 && own.short_count == 0)
        return 0;
    r = policy_options_load(&own, NULL, &ret->rules, err);
    if (r == 0)
        rule_messages_make(&ret->rules, 0, ret);
    return r;
}
