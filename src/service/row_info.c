#include "service/row_info.h"

#include <jansson.h>
#include <string.h>

#include "base/mem.h"
#include "service/sandbox_care.h"
#include "wire/runtime_type.h"
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

enum sandbox_phase row_info_phase(int status)
{
    switch (status) {
    case SANDBOX_STATUS_RUNNING:
    case SANDBOX_STATUS_STOPPING:
        return SANDBOX_RUNNING;
    case SANDBOX_STATUS_STOPPED:
    case SANDBOX_STATUS_DELETING:
        return SANDBOX_STOPPED;
    case SANDBOX_STATUS_ERROR:
        return SANDBOX_ERROR;
    default:
        return SANDBOX_PENDING;
    }
}

int row_info_make(const struct sandbox_row *row, struct sandbox_info **ret, struct err *err)
{
    autoptr(sandbox_info) info = xnew(struct sandbox_info);
    int r = rules_decode(&row->rules, &info->rules, err);

    if (r < 0)
        return err_wrap(err, r, "rules of '%s'", row->id);
    info->id = xdup(row->id);
    info->codebase_id = xdup(row->codebase_id);
    info->owner = xdup(row->owner_id);
    info->reason = xdup(row->reason);
    info->image = xdup(row->image);
    info->network = xdup(row->network);
    for (size_t i = 0; i < row->labels.count; i++)
        pair_list_add(&info->labels, row->labels.items[i].key, row->labels.items[i].value);
    info->phase = row_info_phase(row->status);
    info->runtime = runtime_type_is_offered(row->runtime) ? row->runtime : 0;
    info->sync = row->sync_on_completion ? SANDBOX_SYNC_ON : SANDBOX_SYNC_OFF;
    info->limits = (struct sandbox_limits){
        .memory_bytes = row->memory_bytes,
        .cpu_quota_us = row->cpu_quota,
        .cpu_shares = row->cpu_shares,
        .pids = row->pids_limit,
        .disk_bytes = row->disk_bytes,
    };
    info->created_ns = row->created_ns;
    info->started_ns = row->started_ns;
    info->stopped_ns = row->stopped_ns;
    info->expires_ns = row->expires_ns;
    *ret = steal_ptr(&info);
    return 0;
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
