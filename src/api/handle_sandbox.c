#include <errno.h>
#include <string.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/request.h"
#include "base/mem.h"
#include "service/sandboxes.h"

#define PAGE_DEFAULT 100

static int take_limits(const Sandbox__V1__ResourceLimits *limits, struct sandbox_limits *ret, struct err *err)
{
    if (!limits)
        return 0;
    *ret = (struct sandbox_limits){
        .memory_bytes = limits->memory_bytes,
        .cpu_quota_us = limits->cpu_quota,
        .cpu_shares = limits->cpu_shares,
        .pids = limits->pids_limit,
        .disk_bytes = limits->disk_bytes,
        .disk_inodes = limits->disk_inodes,
    };
    if (ret->memory_bytes < 0 || ret->cpu_quota_us < 0 || ret->cpu_shares < 0 || ret->pids < 0 || ret->disk_bytes < 0 ||
        ret->disk_inodes < 0)
        return err_invalid(err, "resources must not be negative");
    return 0;
}

static Sandbox__V1__Sandbox *make_creation(struct service *service, const struct sandbox_creation *made)
{
    Sandbox__V1__Sandbox *message = make_sandbox_of_row(service, &made->row);

    message->warnings = make_texts(made->warnings.items, made->warnings.count);
    message->n_warnings = made->warnings.count;
    if (made->disk_inodes && !message->resources) {
        message->resources = xnew(Sandbox__V1__ResourceLimits);
        sandbox__v1__resource_limits__init(message->resources);
    }
    if (made->disk_inodes)
        message->resources->disk_inodes = made->disk_inodes;
    return message;
}

static int create(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__CreateSandboxRequest *in = message;
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    autodone(pair_list) struct pair_list labels = PAIR_LIST_EMPTY;
    autodone(pair_list) struct pair_list env = PAIR_LIST_EMPTY;
    autodone(sandbox_creation) struct sandbox_creation made = { 0 };
    struct sandbox_request wanted = {
        .project_root = "", .scope_path = "", .name = "", .driver = "", .creator = "", .creator_type = ""
    };
    int r = request_need(in->codebase_id, "codebase_id", err);

    if (r == 0)
        r = take_rules(in->permissions, in->n_permissions, &rules, err);
    if (r == 0)
        r = take_duration(in->expires_in, "expires_in", &wanted.expires_in_ns, err);
    if (r == 0)
        r = take_limits(in->resources, &wanted.limits, err);
    if (r == 0 && (in->sync_on_completion < 0 || in->sync_on_completion > SANDBOX__V1__SYNC_MODE__SYNC_MODE_OFF))
        r = err_invalid(err, "sync_on_completion %d is not known", (int) in->sync_on_completion);
    if (r < 0)
        return r;
    for (size_t i = 0; i < in->n_labels; i++)
        pair_list_add(&labels, in->labels[i]->key, in->labels[i]->value);
    for (size_t i = 0; i < in->n_env; i++)
        pair_list_add(&env, in->env[i]->key, in->env[i]->value);
    wanted.codebase_id = in->codebase_id;
    wanted.preset = in->preset;
    wanted.rules = &rules;
    wanted.labels = &labels;
    wanted.env = &env;
    wanted.runtime = (int) in->runtime;
    wanted.image = in->image;
    wanted.network = in->network;
    wanted.sync = (enum sandbox_sync) in->sync_on_completion;
    wanted.idempotency_key = in->idempotency_key;
    r = sandboxes_create(request->service, &request->caller, &wanted, &made, err);
    if (r == 0)
        *ret = &make_creation(request->service, &made)->base;
    return r;
}

int handle_create_sandbox(struct call *call, void *cookie, struct err *err)
{
    return request_serve(call, cookie, create, err);
}

static int get(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__GetSandboxRequest *in = message;
    autodone(sandbox_info) struct sandbox_info info = { 0 };
    int r = request_need(in->sandbox_id, "sandbox_id", err);

    if (r == 0)
        r = sandboxes_get(request->service, &request->caller, in->sandbox_id, &info, err);
    if (r == 0)
        *ret = &make_sandbox(request->service, &info)->base;
    return r;
}

int handle_get_sandbox(struct call *call, void *cookie, struct err *err)
{
    return request_serve(call, cookie, get, err);
}

/* In this API whoever starts a sandbox that was approved or rejected goes on with it. */
#define STARTABLE                                                                                                              \
    (SANDBOX_STATE_BIT(SANDBOX_STATE_STOPPED) | SANDBOX_STATE_BIT(SANDBOX_STATE_APPROVED) |                                    \
     SANDBOX_STATE_BIT(SANDBOX_STATE_REJECTED))

static int start(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__StartSandboxRequest *in = message;
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    const struct sandbox_step step = { .states = STARTABLE };
    int r = request_need(in->sandbox_id, "sandbox_id", err);

    if (r == 0)
        r = sandboxes_start(request->service, &request->caller, in->sandbox_id, &step, &row, err);
    if (r >= 0)
        *ret = &make_sandbox_of_row(request->service, &row)->base;
    return r;
}

int handle_start_sandbox(struct call *call, void *cookie, struct err *err)
{
    return request_serve(call, cookie, start, err);
}

static int stop(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__StopSandboxRequest *in = message;
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    const struct sandbox_step step = { 0 };
    int r = request_need(in->sandbox_id, "sandbox_id", err);

    if (r == 0)
        r = sandboxes_stop(request->service, &request->caller, in->sandbox_id, &step, &row, err);
    if (r >= 0)
        *ret = &make_sandbox_of_row(request->service, &row)->base;
    return r;
}

int handle_stop_sandbox(struct call *call, void *cookie, struct err *err)
{
    return request_serve(call, cookie, stop, err);
}

static int destroy(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__DestroySandboxRequest *in = message;
    int r = request_need(in->sandbox_id, "sandbox_id", err);

    if (r == 0)
        r = sandboxes_delete(request->service, &request->caller, in->sandbox_id,
                             &(struct sandbox_deletion){ .is_forced = in->force }, err);
    if (r >= 0)
        *ret = make_empty();
    return r;
}

int handle_destroy_sandbox(struct call *call, void *cookie, struct err *err)
{
    return request_serve(call, cookie, destroy, err);
}

static int list(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ListSandboxesRequest *in = message;
    autodone(sandbox_rows) struct sandbox_rows rows = { 0 };
    struct sandbox_filter filter = { .codebase_id = *in->codebase_id ? in->codebase_id : NULL };
    struct store_page page = { .limit = take_page_size(in->page_size), .token = in->page_token };
    int r = take_status(in->status, &filter.statuses, err);

    page.limit = page.limit ? page.limit : PAGE_DEFAULT;
    if (r == 0)
        r = sandboxes_list(request->service, &request->caller, filter, &page, &rows, err);
    if (r < 0)
        return r;
    Sandbox__V1__ListSandboxesResponse *out = xnew(Sandbox__V1__ListSandboxesResponse);
    sandbox__v1__list_sandboxes_response__init(out);
    out->sandboxes = rows.count > 0 ? xalloc(rows.count * sizeof(*out->sandboxes)) : NULL;
    while (out->n_sandboxes < rows.count) {
        out->sandboxes[out->n_sandboxes] = make_sandbox_of_row(request->service, &rows.rows[out->n_sandboxes]);
        out->n_sandboxes++;
    }
    out->next_page_token = make_string(rows.next_token);
    *ret = &out->base;
    return 0;
}

int handle_list_sandboxes(struct call *call, void *cookie, struct err *err)
{
    return request_serve(call, cookie, list, err);
}
