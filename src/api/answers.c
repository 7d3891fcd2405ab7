#include "api/answers.h"

#include <limits.h>
#include <string.h>

#include "api/request.h"
#include "base/mem.h"
#include "service/row_info.h"

Sandbox__V1__PermissionRule *make_rule(const struct rule *rule)
{
    Sandbox__V1__PermissionRule *message = message_new(&sandbox__v1__permission_rule__descriptor);

    message->pattern = make_string(rule->pattern);
    /* A rule without a type is read as a glob. */
    message->type = (Sandbox__V1__PatternType) (rule->type == RULE_UNSPECIFIED ? RULE_GLOB : rule->type);
    message->permission = (Sandbox__V1__Permission) (rule->level + 1);
    message->priority = rule->priority;
    return message;
}

/* Leaves out limits that nobody requested. */
static Sandbox__V1__ResourceLimits *make_limits(const struct sandbox_row *row)
{
    Sandbox__V1__ResourceLimits *message;

    if (!row->memory_bytes && !row->cpu_quota && !row->cpu_shares && !row->pids_limit && !row->disk_bytes)
        return NULL;
    message = message_new(&sandbox__v1__resource_limits__descriptor);
    message->memory_bytes = row->memory_bytes;
    message->cpu_quota = row->cpu_quota;
    message->cpu_shares = row->cpu_shares;
    message->pids_limit = row->pids_limit;
    message->disk_bytes = row->disk_bytes;
    return message;
}

static void add_labels(Sandbox__V1__Sandbox *message, const struct label_list *labels)
{
    if (labels->count == 0)
        return;
    message->labels = xalloc(labels->count * sizeof(*message->labels));
    for (size_t i = 0; i < labels->count; i++) {
        Sandbox__V1__Sandbox__LabelsEntry *entry = message_new(&sandbox__v1__sandbox__labels_entry__descriptor);

        entry->key = make_string(labels->items[i].key);
        entry->value = make_string(labels->items[i].value);
        message->labels[message->n_labels++] = entry;
    }
}

/* Leaves out rules that cannot be read. */
static void add_rules(Sandbox__V1__Sandbox *message, const struct buf *encoded)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;

    if (rules_decode(encoded, &rules, NULL) < 0 || rules.count == 0)
        return;
    message->permissions = xalloc(rules.count * sizeof(*message->permissions));
    for (size_t i = 0; i < rules.count; i++)
        message->permissions[message->n_permissions++] = make_rule(&rules.items[i]);
}

static void add_tags(Sandbox__V1__Sandbox *message, const char *json)
{
    json_t *tags = json_loads(json, 0, NULL), *tag;
    size_t i;

    if (json_array_size(tags) > 0)
        message->tags = xalloc(json_array_size(tags) * sizeof(*message->tags));
    json_array_foreach(tags, i, tag) message->tags[message->n_tags++] = make_string(json_string_value(tag));
    json_decref(tags);
}

_Static_assert((int) SANDBOX__V1__SANDBOX_DECISION__SANDBOX_DECISION_REJECTED == SANDBOX_DECISION_REJECTED + 1, "decisions");

/* During a step, the API shows the status before it. */
static const Sandbox__V1__SandboxStatus shown_statuses[SANDBOX_STATUS_COUNT] = {
    [SANDBOX_STATUS_UNSPECIFIED] = SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_PENDING,
    [SANDBOX_STATUS_CREATING] = SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_PENDING,
    [SANDBOX_STATUS_PENDING] = SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_PENDING,
    [SANDBOX_STATUS_STARTING] = SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_PENDING,
    [SANDBOX_STATUS_RUNNING] = SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_RUNNING,
    [SANDBOX_STATUS_STOPPING] = SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_RUNNING,
    [SANDBOX_STATUS_STOPPED] = SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_STOPPED,
    [SANDBOX_STATUS_DELETING] = SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_STOPPED,
    [SANDBOX_STATUS_ERROR] = SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_ERROR,
    [SANDBOX_STATUS_DELETED] = SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_DELETED,
};

Sandbox__V1__SandboxStatus make_sandbox_status(int status)
{
    return shown_statuses[status > 0 && status < SANDBOX_STATUS_COUNT ? status : 0];
}

int take_status(Sandbox__V1__SandboxStatus status, unsigned *ret, struct err *err)
{
    unsigned bits = 0;

    if (status < 0 || status > SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_DELETED)
        return err_invalid(err, "status %d is not known", (int) status);
    for (int i = SANDBOX_STATUS_PENDING; i < SANDBOX_STATUS_COUNT; i++)
        if (status ? shown_statuses[i] == status : i != SANDBOX_STATUS_DELETED)
            bits |= SANDBOX_STATUS_BIT(i);
    *ret = bits;
    return 0;
}

Sandbox__V1__Sandbox *make_sandbox_of_row(struct service *service, const struct sandbox_row *row)
{
    autofree char *host_path = sandboxes_host_path(service, row), *profile = sandbox_profile(row);
    Sandbox__V1__Sandbox *message = message_new(&sandbox__v1__sandbox__descriptor);

    message->id = make_string(row->id);
    message->codebase_id = make_string(row->codebase_id);
    add_rules(message, &row->rules);
    message->status = make_sandbox_status(row->status);
    add_labels(message, &row->labels);
    message->created_at = make_timestamp(row->created_ns);
    message->started_at = make_timestamp(row->started_ns);
    message->stopped_at = make_timestamp(row->stopped_ns);
    message->expires_at = make_timestamp(row->expires_ns);
    if (protobuf_c_enum_descriptor_get_value(&sandbox__v1__runtime_type__descriptor, row->runtime))
        message->runtime = (Sandbox__V1__RuntimeType) row->runtime;
    message->image = make_string(row->image);
    message->resources = make_limits(row);
    message->status_reason = make_string(row->reason);
    message->owner_id = make_string(row->owner_id);
    message->network = make_string(row->network);
    message->sync_on_completion =
        row->sync_on_completion ? SANDBOX__V1__SYNC_MODE__SYNC_MODE_ON : SANDBOX__V1__SYNC_MODE__SYNC_MODE_OFF;
    message->name = make_string(row->name);
    message->directory = make_string(row->scope_path);
    message->project_root = make_string(row->project_root);
    while (row->reserved_paths && row->reserved_paths[message->n_reserved_paths])
        message->n_reserved_paths++;
    message->reserved_paths = make_texts(row->reserved_paths, message->n_reserved_paths);
    message->no_lock = row->no_lock;
    message->decision = (Sandbox__V1__SandboxDecision) (row->decision + 1);
    message->driver = make_string(row->driver);
    message->version = row->row_version;
    message->preset = make_string(row->preset);
    message->updated_at = make_timestamp(row->updated_ns);
    message->last_used_at = make_timestamp(row->used_ns);
    message->decided_at = make_timestamp(row->closed_ns);
    message->deleted_at = make_timestamp(row->deleted_ns);
    message->restorable_until = make_timestamp(sandboxes_trash_until(service, row));
    message->changed_bytes = row->size_bytes;
    message->changed_files = row->file_count;
    message->base_commit = make_string(row->base_commit);
    message->creator = make_string(row->creator);
    message->creator_type = make_string(row->creator_type);
    add_tags(message, row->tags);
    message->metadata = make_string(row->metadata);
    message->behavior = make_string(row->behavior);
    message->profile = make_string(profile);
    message->host_path = make_string(host_path);
    return message;
}

Sandbox__V1__Sandbox *make_sandbox(struct service *service, const struct sandbox_info *info)
{
    Sandbox__V1__Sandbox *message = make_sandbox_of_row(service, &info->row);

    message->warnings = make_texts(info->warnings.items, info->warnings.count);
    message->n_warnings = info->warnings.count;
    message->limits = info->held.count > 0 ? xalloc(info->held.count * sizeof(*message->limits)) : NULL;
    for (size_t i = 0; i < info->held.count; i++) {
        Sandbox__V1__LimitInForce *limit = message_new(&sandbox__v1__limit_in_force__descriptor);

        limit->name = make_string(info->held.items[i].name);
        limit->value = info->held.items[i].value;
        limit->is_default = info->held.items[i].is_default;
        limit->not_enforced = make_string(info->held.items[i].not_enforced);
        message->limits[message->n_limits++] = limit;
    }
    return message;
}

Sandbox__V1__Session *make_session(const struct session_info *info)
{
    Sandbox__V1__Session *message = message_new(&sandbox__v1__session__descriptor);

    message->id = make_string(info->id);
    message->sandbox_id = make_string(info->sandbox_id);
    message->status = (Sandbox__V1__SessionStatus) info->phase;
    message->shell = make_string(info->shell);
    message->created_at = make_timestamp(info->created_ns);
    message->closed_at = make_timestamp(info->closed_ns);
    return message;
}

Sandbox__V1__Codebase *make_codebase(const struct codebase_entry *entry)
{
    Sandbox__V1__Codebase *message = message_new(&sandbox__v1__codebase__descriptor);

    message->id = make_string(entry->id);
    message->name = make_string(entry->name);
    message->owner_id = make_string(entry->owner);
    message->size = (int64_t) entry->size_bytes;
    message->file_count = entry->file_count > INT32_MAX ? INT32_MAX : (int32_t) entry->file_count;
    message->created_at = make_timestamp(entry->created_ns);
    message->updated_at = make_timestamp(entry->updated_ns);
    message->version = (int64_t) entry->version;
    return message;
}

Sandbox__V1__Version *make_version(const struct version_entry *entry)
{
    Sandbox__V1__Version *message = message_new(&sandbox__v1__version__descriptor);

    message->number = (int64_t) entry->number;
    message->created_at = make_timestamp(entry->created_ns);
    message->author = make_string(entry->author);
    message->reason = make_string(entry->reason);
    message->files_changed = (int64_t) entry->changes;
    message->conflicts = make_texts(entry->conflicts, entry->conflict_count);
    message->n_conflicts = entry->conflict_count;
    return message;
}

Sandbox__V1__Event *make_event(const struct event_info *info)
{
    Sandbox__V1__Event *message = message_new(&sandbox__v1__event__descriptor);

    message->sequence = info->sequence;
    message->time = make_timestamp(info->time_ns);
    message->type = make_string(info->type);
    message->sandbox_id = make_string(info->sandbox_id);
    message->codebase_id = make_string(info->codebase_id);
    message->owner_id = make_string(info->owner);
    message->payload = make_string(info->payload);
    return message;
}

#define FAILURE_BYTES 1100 /* it is sent in gRPC's trailers */

Sandbox__V1__ReservationConflict *make_reserved(const struct request *request, const struct sandbox_conflict *conflict)
{
    Sandbox__V1__ReservationConflict *out = message_new(&sandbox__v1__reservation_conflict__descriptor);
    bool is_seen = caller_sees(&request->caller, conflict->owner_id);

    out->overlap = (Sandbox__V1__ReservationOverlap) (conflict->overlap + 1);
    out->requested = make_string(conflict->wanted);
    out->path = make_string(is_seen ? conflict->path : conflict->wanted);
    if (!is_seen)
        return out;
    out->sandbox_id = make_string(conflict->id);
    out->creator = make_string(conflict->creator);
    out->status = conflict->state == SANDBOX_STATE_ACTIVE     ? SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_RUNNING
                  : conflict->state == SANDBOX_STATE_CREATING ? SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_PENDING
                                                              : SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_STOPPED;
    return out;
}

int tell_reserved(const struct request *request, int r, const struct sandbox_conflicts *conflicts)
{
    Sandbox__V1__ReservationFailure *out;
    size_t bytes = 0, cap = 0;

    if (conflicts->count == 0)
        return r;
    out = message_new(&sandbox__v1__reservation_failure__descriptor);
    out->total = (int32_t) conflicts->count;
    for (size_t i = 0; i < conflicts->count; i++) {
        Sandbox__V1__ReservationConflict *one = make_reserved(request, &conflicts->items[i]);

        bytes += protobuf_c_message_get_packed_size(&one->base) + 3;
        if (bytes >= FAILURE_BYTES) {
            protobuf_c_message_free_unpacked(&one->base, NULL);
            break;
        }
        vec_room(&out->conflicts, &cap, out->n_conflicts);
        out->conflicts[out->n_conflicts++] = one;
    }
    call_take_failure(request->call, &out->base);
    return r;
}

ProtobufCMessage *make_empty(void)
{
    Sandbox__V1__Empty *empty = message_new(&sandbox__v1__empty__descriptor);

    return &empty->base;
}
