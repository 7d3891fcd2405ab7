#include <errno.h>
#include <string.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/request.h"
#include "base/mem.h"
#include "service/row_info.h"
#include "service/sandboxes.h"

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

static int create(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__CreateSandboxRequest *in = message;
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    autodone(pair_list) struct pair_list labels = PAIR_LIST_EMPTY;
    autodone(pair_list) struct pair_list env = PAIR_LIST_EMPTY;
    autodone(sandbox_creation) struct sandbox_creation made = { 0 };
    autoptr(sandbox_info) info = NULL;
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
        r = row_info_make(&made.row, &info, err);
    if (r < 0)
        return r;
    info->limits.disk_inodes = made.disk_inodes;
    rule_warnings_move(&made.warnings, info);
    *ret = &make_sandbox(info)->base;
    return 0;
}

int handle_create_sandbox(struct call *call, void *cookie, struct err *err)
{
    return request_serve(call, cookie, create, err);
}

typedef int (*step_fn)(struct service *service, const struct caller *caller, const char *id, struct sandbox_info **ret,
                       struct err *err);

/* Get, start and stop: their requests are the same but for their names, and so are their answers. */
static int step(const struct request *request, const void *message, step_fn fn, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__GetSandboxRequest *in = message;
    autoptr(sandbox_info) info = NULL;
    int r = request_need(in->sandbox_id, "sandbox_id", err);

    if (r == 0)
        r = fn(request->service, &request->caller, in->sandbox_id, &info, err);
    if (r >= 0)
        *ret = &make_sandbox(info)->base;
    return r;
}

_Static_assert(offsetof(Sandbox__V1__GetSandboxRequest, sandbox_id) == offsetof(Sandbox__V1__StartSandboxRequest, sandbox_id) &&
                   offsetof(Sandbox__V1__GetSandboxRequest, sandbox_id) ==
                       offsetof(Sandbox__V1__StopSandboxRequest, sandbox_id),
               "three requests of one shape");

static int get(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    return step(request, message, sandboxes_get, ret, err);
}

int handle_get_sandbox(struct call *call, void *cookie, struct err *err)
{
    return request_serve(call, cookie, get, err);
}

/* In this API whoever starts a sandbox that was approved or rejected goes on with it. */
#define STARTABLE                                                                                                              \
    (SANDBOX_STATE_BIT(SANDBOX_STATE_STOPPED) | SANDBOX_STATE_BIT(SANDBOX_STATE_APPROVED) |                                    \
     SANDBOX_STATE_BIT(SANDBOX_STATE_REJECTED))

static int start_it(struct service *service, const struct caller *caller, const char *id, struct sandbox_info **ret,
                    struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    int r = sandboxes_start(service, caller, id, &(struct sandbox_step){ .states = STARTABLE }, &row, err);

    return r < 0 ? r : row_info_make(&row, ret, err);
}

static int start(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    return step(request, message, start_it, ret, err);
}

int handle_start_sandbox(struct call *call, void *cookie, struct err *err)
{
    return request_serve(call, cookie, start, err);
}

static int stop_it(struct service *service, const struct caller *caller, const char *id, struct sandbox_info **ret,
                   struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    int r = sandboxes_stop(service, caller, id, &(struct sandbox_step){ 0 }, &row, err);

    return r < 0 ? r : row_info_make(&row, ret, err);
}

static int stop(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    return step(request, message, stop_it, ret, err);
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
    autodone(sandbox_page) struct sandbox_page page = { 0 };
    struct sandbox_query filter = { 0 };
    int r;

    if (in->status < 0 || in->status > SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_ERROR)
        return err_invalid(err, "status %d is not known", (int) in->status);
    filter.page_size = take_page_size(in->page_size);
    filter.codebase_id = in->codebase_id;
    filter.phase = (enum sandbox_phase) in->status;
    filter.page_token = in->page_token;
    r = sandboxes_list(request->service, &request->caller, &filter, &page, err);
    if (r < 0)
        return r;
    Sandbox__V1__ListSandboxesResponse *out = xnew(Sandbox__V1__ListSandboxesResponse);
    sandbox__v1__list_sandboxes_response__init(out);
    out->sandboxes = page.count > 0 ? xalloc(page.count * sizeof(*out->sandboxes)) : NULL;
    for (size_t i = 0; i < page.count; i++)
        out->sandboxes[out->n_sandboxes++] = make_sandbox(page.items[i]);
    out->next_page_token = xdup(page.next_token);
    *ret = &out->base;
    return 0;
}

int handle_list_sandboxes(struct call *call, void *cookie, struct err *err)
{
    return request_serve(call, cookie, list, err);
}
