/* How long sandboxes are kept, and how much disk they use. */
#include <errno.h>
#include <string.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/review_message.h"
#include "base/mem.h"
#include "service/sandbox_disk_use.h"
#include <sandbox/v1/retention.pb-c.h>

#define SANDBOXES_DEFAULT 100
#define SANDBOXES_MAX 1000

/* CollectableState, by its number. */
static const enum sandbox_state collectable_states[] = { SANDBOX_STATE_NONE, SANDBOX_STATE_STOPPED, SANDBOX_STATE_ERROR,
                                                         SANDBOX_STATE_APPROVED, SANDBOX_STATE_REJECTED };

static Sandbox__V1__CollectableState collectable_state_of(enum sandbox_state state)
{
    for (size_t i = 1; i < ARRAY_LEN(collectable_states); i++)
        if (collectable_states[i] == state)
            return (Sandbox__V1__CollectableState) i;
    return SANDBOX__V1__COLLECTABLE_STATE__COLLECTABLE_STATE_UNSPECIFIED;
}

/* Returns -1 for a missing span: no criterion. */
static int retention_take_span(const Google__Protobuf__Duration *span, const char *name, int64_t *ret, struct err *err)
{
    int r = take_duration(span, name, ret, err);

    if (r == 0 && !span)
        *ret = -1;
    return r;
}

static int retention_take_policy(const Sandbox__V1__RetentionPolicy *in, struct sandbox_gc *ret, struct err *err)
{
    int r = retention_take_span(in->max_age, "policy.max_age", &ret->max_age_ns, err);

    if (r == 0)
        r = retention_take_span(in->idle_timeout, "policy.idle_timeout", &ret->idle_ns, err);
    if (r == 0)
        r = retention_take_span(in->decided_delay, "policy.decided_delay", &ret->terminal_delay_ns, err);
    if (r == 0)
        r = retention_take_span(in->trash_delay, "policy.trash_delay", &ret->trash_ns, err);
    if (r == 0 && in->max_total_bytes < 0)
        r = err_invalid(err, "policy.max_total_bytes must not be negative");
    ret->max_total_bytes = in->max_total_bytes;
    for (size_t i = 0; r == 0 && i < in->n_states; i++) {
        int state = (int) in->states[i];

        if (state <= 0 || (size_t) state >= ARRAY_LEN(collectable_states))
            return err_invalid(err, "policy.states[%zu]: state %d is not known", i, state);
        ret->states |= SANDBOX_STATE_BIT(collectable_states[state]);
    }
    return r;
}

static Sandbox__V1__CollectedSandbox *make_collected(const struct sandbox_gc_one *one)
{
    Sandbox__V1__CollectedSandbox *out = message_new(&sandbox__v1__collected_sandbox__descriptor);

    out->sandbox_id = make_string(one->row.id);
    out->name = make_string(one->row.name);
    out->directory = make_string(one->row.scope_path);
    out->state = collectable_state_of(sandbox_row_state(&one->row));
    out->changed_bytes = one->row.size_bytes;
    out->reason = make_string(one->reason);
    out->error = make_string(one->error);
    out->created_at = make_timestamp(one->row.created_ns);
    return out;
}

static Sandbox__V1__CollectResponse *make_collection(const struct sandbox_gc_result *result, bool is_dry)
{
    Sandbox__V1__CollectResponse *out = message_new(&sandbox__v1__collect_response__descriptor);
    size_t cap = 0, bytes = 0;

    out->dry_run = is_dry;
    for (size_t i = 0; i < result->count; i++) {
        const struct sandbox_gc_one *one = &result->items[i];

        if (*one->error) {
            out->failed++;
        } else {
            out->collected++;
            out->collected_bytes += one->row.size_bytes;
        }
        out->sandboxes_truncated = bytes >= REVIEW_ANSWER_BYTES;
        if (out->sandboxes_truncated)
            continue;
        vec_room(&out->sandboxes, &cap, out->n_sandboxes);
        out->sandboxes[out->n_sandboxes] = make_collected(one);
        bytes += protobuf_c_message_get_packed_size(&out->sandboxes[out->n_sandboxes++]->base);
    }
    out->trash_kept = (int64_t) result->trash.kept;
    out->trash_kept_bytes = result->trash.kept_bytes;
    out->trash_purged = (int64_t) result->trash.purged;
    out->trash_purged_bytes = result->trash.purged_bytes;
    out->pruned_approvals = (int64_t) result->pruned_records;
    out->pruned_pre_images = (int64_t) result->pruned_copies;
    out->pruned_bytes = (int64_t) result->pruned_bytes;
    return out;
}

static int retention_take_count(int32_t given, size_t *ret, struct err *err)
{
    if (given < 0 || given > SANDBOXES_MAX)
        return err_invalid(err, "max_sandboxes must be between 0 and %d", SANDBOXES_MAX);
    *ret = given ? (size_t) given : SANDBOXES_DEFAULT;
    return 0;
}

int handle_collect(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__CollectRequest *in = message;
    struct sandbox_gc gc = sandboxes_gc_default(request->service);
    struct sandbox_gc_result result = { 0 };
    int r = 0;

    if (in->policy) {
        gc = (struct sandbox_gc){ .with_terminal = true };
        r = retention_take_policy(in->policy, &gc, err);
    }
    if (r == 0)
        r = retention_take_count(in->max_sandboxes, &gc.limit, err);
    if (r < 0)
        return r;
    gc.is_dry = in->dry_run;
    r = sandboxes_gc(request->service, &request->caller, &gc, &result, err);
    if (r == 0)
        *ret = &make_collection(&result, gc.is_dry)->base;
    sandbox_gc_result_done(&result);
    return r;
}

static Google__Protobuf__Duration *make_retention_span(int64_t ns)
{
    return ns < 0 ? NULL : make_duration(ns);
}

int handle_get_retention(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    struct sandbox_gc gc = sandboxes_gc_default(request->service);
    struct sandbox_windows windows = sandboxes_windows(request->service);
    Sandbox__V1__GetRetentionResponse *out = message_new(&sandbox__v1__get_retention_response__descriptor);

    (void) message;
    (void) err;
    out->policy = message_new(&sandbox__v1__retention_policy__descriptor);
    out->policy->max_age = make_retention_span(gc.max_age_ns);
    out->policy->idle_timeout = make_retention_span(gc.idle_ns);
    out->policy->decided_delay = make_retention_span(gc.terminal_delay_ns);
    out->policy->trash_delay = windows.trash_ns > 0 ? make_retention_span(gc.trash_ns) : NULL;
    out->policy->max_total_bytes = gc.max_total_bytes > 0 ? gc.max_total_bytes : 0;
    out->collects_decided = windows.collects_decided;
    out->undo_window = windows.undo_ns > 0 ? make_duration(windows.undo_ns) : NULL;
    out->trash_window = windows.trash_ns > 0 ? make_duration(windows.trash_ns) : NULL;
    *ret = &out->base;
    return 0;
}

static Sandbox__V1__SandboxDiskUse *make_disk_use(const struct sandbox_disk_use *use)
{
    Sandbox__V1__SandboxDiskUse *out = message_new(&sandbox__v1__sandbox_disk_use__descriptor);

    out->sandbox_id = make_string(use->row.id);
    out->name = make_string(use->row.name);
    out->directory = make_string(use->row.scope_path);
    out->codebase_id = make_string(use->row.codebase_id);
    out->status = make_sandbox_status(use->row.status);
    out->decision = (Sandbox__V1__SandboxDecision) (use->row.decision + 1);
    out->changed_bytes = use->row.size_bytes;
    out->changed_files = use->row.file_count;
    out->disk_bytes = use->disk_bytes;
    out->error = make_string(use->error);
    out->last_used_at = make_timestamp(use->row.used_ns);
    return out;
}

int handle_get_disk_use(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__GetDiskUseRequest *in = message;
    autodone(sandbox_disk_use_list) struct sandbox_disk_use_list list = { 0 };
    size_t max = 0, bytes = 0;
    int r = retention_take_count(in->max_sandboxes, &max, err);

    if (r == 0)
        r = sandboxes_disk_use(request->service, &request->caller, in->sandbox_id, in->measure, &list, err);
    if (r < 0)
        return r;
    Sandbox__V1__GetDiskUseResponse *out = message_new(&sandbox__v1__get_disk_use_response__descriptor);
    out->sandboxes = xalloc((list.count + 1) * sizeof(*out->sandboxes));
    for (size_t i = 0; i < list.count; i++) {
        const struct sandbox_disk_use *use = &list.items[i];
        bool is_deleted = use->row.status == SANDBOX_STATUS_DELETED;

        out->total++;
        out->changed_bytes += use->row.size_bytes;
        out->disk_bytes += use->disk_bytes;
        out->trash += is_deleted;
        out->trash_disk_bytes += is_deleted ? use->disk_bytes : 0;
        if (i >= max || bytes >= REVIEW_ANSWER_BYTES)
            continue;
        out->sandboxes[out->n_sandboxes] = make_disk_use(use);
        bytes += protobuf_c_message_get_packed_size(&out->sandboxes[out->n_sandboxes++]->base);
    }
    *ret = &out->base;
    return 0;
}
