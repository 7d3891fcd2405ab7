#include "service/row_info.h"

#include <jansson.h>
#include <string.h>

#include "base/mem.h"
#include "service/sandbox_care.h"
#include "wire/sandbox_spec.h"

void rules_encode(const struct rule_list *rules, struct buf *out)
{
    autoptr(sandbox_spec) spec = xnew(struct sandbox_spec);

    for (size_t i = 0; i < rules->count; i++)
        sandbox_spec_add_rule(spec, rules->items[i].pattern, (uint8_t) rules->items[i].type, (uint8_t) rules->items[i].level,
                              rules->items[i].priority);
    sandbox_spec_rules_encode(spec, out);
}

int rules_decode(const struct buf *bytes, struct rule_list *ret, struct err *err)
{
    autoptr(sandbox_spec) spec = xnew(struct sandbox_spec);
    int r = bytes->len > 0 ? sandbox_spec_rules_decode(spec, bytes->data, bytes->len, err) : 0;

    for (size_t i = 0; r == 0 && i < spec->rule_count; i++) {
        const struct sandbox_rule *rule = &spec->rules[i];

        r = rule_list_add(ret, rule->pattern, strlen(rule->pattern), (enum rule_type) rule->type, (enum level) rule->level,
                          rule->priority, err);
    }
    return r;
}

char *sandbox_profile(const struct sandbox_row *row)
{
    json_t *extra = row->extra.len ? json_loadb(row->extra.data, row->extra.len, 0, NULL) : NULL;
    const char *id = json_string_value(json_object_get(extra, "profile"));
    char *copy = xdup(id ? id : "");

    json_decref(extra);
    return copy;
}

bool sandbox_wants_host_mount(const struct sandbox_row *row)
{
    json_t *extra = row->extra.len ? json_loadb(row->extra.data, row->extra.len, 0, NULL) : NULL;
    bool wants = json_is_true(json_object_get(extra, "hostMount"));

    json_decref(extra);
    return wants;
}
