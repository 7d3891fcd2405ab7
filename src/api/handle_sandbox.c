#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/request.h"
#include "base/mem.h"
#include "service/behavior.h"
#include "service/sandboxes.h"

#define PAGE_DEFAULT 100

_Static_assert((int) SANDBOX__V1__SANDBOX_BASE__SANDBOX_BASE_DIRECTORY == SANDBOX_BASE_DIRECTORY, "bases");

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

/* A request in the form of the service. It borrows from the message, except for the fields below. */
struct creation_request {
    struct sandbox_request request;
    struct rule_list rules;
    struct pair_list labels, env;
    const char **reserved;              /* owned array, ended by NULL */
    json_t *tags, *metadata, *behavior; /* owned */
    bool host_mount;
};

static void creation_request_done(struct creation_request *wanted)
{
    rule_list_done(&wanted->rules);
    pair_list_done(&wanted->labels);
    pair_list_done(&wanted->env);
    free(wanted->reserved);
    json_decref(wanted->tags);
    json_decref(wanted->metadata);
    json_decref(wanted->behavior);
}

/* NULL for "". */
static int take_json(const char *text, const char *name, json_t **ret, struct err *err)
{
    json_error_t error;

    if (!*text)
        return 0;
    *ret = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(*ret))
        return err_invalid(err, "%s must be a JSON object%s%s", name, *ret ? "" : ": ", *ret ? "" : error.text);
    return 0;
}

static int take_behavior(const Sandbox__V1__CreateSandboxRequest *in, struct creation_request *wanted, struct err *err)
{
    json_t *given = NULL;
    int r = take_json(in->behavior, "behavior", &given, err);

    if (r == 0 && json_object_get(given, "noLock"))
        r = err_invalid(err, "behavior.noLock is the field noLock here");
    if (r == 0 && given)
        r = behavior_normalise(given, &wanted->behavior, err);
    json_decref(given);
    wanted->request.behavior = wanted->behavior;
    return r;
}

static int take_base(const Sandbox__V1__CreateSandboxRequest *in, struct creation_request *wanted, struct err *err)
{
    if (!*in->codebase_id && !*in->directory)
        return request_need(in->codebase_id, "codebase_id", err); /* clients of others compare this text */
    if (*in->codebase_id && *in->directory)
        return err_invalid(err, "codebase_id and directory cannot both be given: a sandbox is over one of them");
    if (*in->directory && *in->directory != '/')
        return err_invalid(err, "directory '%s' is no absolute path", in->directory);
    wanted->reserved = xalloc((in->n_reserved_paths + 1) * sizeof(*wanted->reserved));
    for (size_t i = 0; i < in->n_reserved_paths; i++)
        wanted->reserved[i] = in->reserved_paths[i];
    wanted->reserved[in->n_reserved_paths] = NULL;
    wanted->request.codebase_id = in->codebase_id;
    wanted->request.scope_path = in->directory;
    wanted->request.project_root = in->project_root;
    wanted->request.reserved_paths = wanted->reserved;
    wanted->request.no_lock = in->no_lock;
    /* The default profile would override the requested network. Containers have a network of their own. */
    if (*in->profile || (*in->directory && !*in->network && in->runtime != SANDBOX__V1__RUNTIME_TYPE__RUNTIME_TYPE_DOCKER))
        wanted->request.profile = in->profile;
    return 0;
}

static int take_creation(const Sandbox__V1__CreateSandboxRequest *in, struct creation_request *wanted, struct err *err)
{
    struct sandbox_request *request = &wanted->request;
    int r = take_base(in, wanted, err);

    if (r == 0)
        r = take_rules(in->permissions, in->n_permissions, &wanted->rules, err);
    if (r == 0)
        r = take_duration(in->expires_in, "expires_in", &request->expires_in_ns, err);
    if (r == 0)
        r = take_limits(in->resources, &request->limits, err);
    if (r == 0 && (in->sync_on_completion < 0 || in->sync_on_completion > SANDBOX__V1__SYNC_MODE__SYNC_MODE_OFF))
        r = err_invalid(err, "sync_on_completion %d is not known", (int) in->sync_on_completion);
    if (r == 0 && (in->host_mount < 0 || in->host_mount > SANDBOX__V1__HOST_MOUNT_MODE__HOST_MOUNT_MODE_OFF))
        r = err_invalid(err, "host_mount %d is not known", (int) in->host_mount);
    if (r == 0)
        r = take_json(in->metadata, "metadata", &wanted->metadata, err);
    if (r == 0)
        r = take_behavior(in, wanted, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < in->n_labels; i++)
        pair_list_add(&wanted->labels, in->labels[i]->key, in->labels[i]->value);
    for (size_t i = 0; i < in->n_env; i++)
        pair_list_add(&wanted->env, in->env[i]->key, in->env[i]->value);
    wanted->tags = in->n_tags > 0 ? json_array() : NULL;
    for (size_t i = 0; i < in->n_tags; i++)
        json_array_append_new(wanted->tags, json_string(in->tags[i]));
    wanted->host_mount = in->host_mount == SANDBOX__V1__HOST_MOUNT_MODE__HOST_MOUNT_MODE_ON;
    if (in->host_mount)
        request->host_mount = &wanted->host_mount;
    request->rules = &wanted->rules;
    request->labels = &wanted->labels;
    request->env = &wanted->env;
    request->tags = wanted->tags;
    request->metadata = wanted->metadata;
    request->name = in->name;
    request->preset = in->preset;
    request->runtime = (int) in->runtime;
    request->driver = in->driver;
    request->image = in->image;
    request->network = in->network;
    request->sync = (enum sandbox_sync) in->sync_on_completion;
    request->restarts = in->restarts;
    request->creator = in->creator;
    request->creator_type = in->creator_type;
    request->starts = in->start;
    request->idempotency_key = in->idempotency_key;
    return 0;
}

static Sandbox__V1__Sandbox *make_creation(struct service *service, const struct sandbox_creation *made)
{
    Sandbox__V1__Sandbox *message = make_sandbox_of_row(service, &made->row);

    message->warnings = make_texts(made->warnings.items, made->warnings.count);
    message->n_warnings = made->warnings.count;
    if (made->disk_inodes && !message->resources) {
        message->resources = message_new(&sandbox__v1__resource_limits__descriptor);
    }
    if (made->disk_inodes)
        message->resources->disk_inodes = made->disk_inodes;
    return message;
}

int handle_create_sandbox(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    autodone(creation_request) struct creation_request wanted = { 0 };
    autodone(sandbox_creation) struct sandbox_creation made = { 0 };
    int r = take_creation(message, &wanted, err);

    if (r == 0)
        r = sandboxes_create(request->service, &request->caller, &wanted.request, &made, err);
    if (r < 0)
        return tell_reserved(request, r, &made.conflicts);
    *ret = &make_creation(request->service, &made)->base;
    return 0;
}

int handle_get_sandbox(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__GetSandboxRequest *in = message;
    autodone(sandbox_info) struct sandbox_info info = { 0 };
    int r = request_need(in->sandbox_id, "sandbox_id", err);

    if (r == 0)
        r = sandboxes_get(request->service, &request->caller, in->sandbox_id, in->include_deleted, &info, err);
    if (r == 0)
        *ret = &make_sandbox(request->service, &info)->base;
    return r;
}

/* StartSandbox also starts a sandbox that was approved or rejected: the caller continues to work in it. */
#define STARTABLE                                                                                                              \
    (SANDBOX_STATE_BIT(SANDBOX_STATE_STOPPED) | SANDBOX_STATE_BIT(SANDBOX_STATE_APPROVED) |                                    \
     SANDBOX_STATE_BIT(SANDBOX_STATE_REJECTED))

int handle_start_sandbox(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
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

int handle_stop_sandbox(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
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

int handle_destroy_sandbox(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__DestroySandboxRequest *in = message;
    int r = request_need(in->sandbox_id, "sandbox_id", err);

    if (r == 0)
        r = sandboxes_delete(request->service, &request->caller, in->sandbox_id,
                             &(struct sandbox_deletion){ .is_forced = in->force, .purges = in->purge }, err);
    if (r >= 0)
        *ret = make_empty();
    return r;
}

static const char *text_or_null(const char *text)
{
    return *text ? text : NULL;
}

int handle_list_sandboxes(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ListSandboxesRequest *in = message;
    autodone(sandbox_rows) struct sandbox_rows rows = { 0 };
    autodone(label_list) struct label_list labels = { 0 };
    struct store_page page = { .limit = take_page_size(in->page_size), .token = in->page_token };
    struct sandbox_filter filter = {
        .owner_id = text_or_null(in->owner_id),
        .codebase_id = text_or_null(in->codebase_id),
        .name = text_or_null(in->name),
        .creator = text_or_null(in->creator),
        .project_root = text_or_null(in->project_root),
        .scope_path = text_or_null(in->directory),
        .base = (enum sandbox_base) in->base_kind,
        .decisions = in->decision ? 1u << ((unsigned) (in->decision - 1) & 31u) : 0,
        .tags = (const char *const *) in->tags,
        .tag_count = in->n_tags,
        .labels = &labels,
    };
    int r = take_status(in->status, &filter.statuses, err);

    if (r == 0 && (in->base_kind < 0 || in->base_kind > SANDBOX__V1__SANDBOX_BASE__SANDBOX_BASE_DIRECTORY))
        r = err_invalid(err, "base_kind %d is not known", (int) in->base_kind);
    if (r == 0 && (in->decision < 0 || in->decision > SANDBOX__V1__SANDBOX_DECISION__SANDBOX_DECISION_REJECTED))
        r = err_invalid(err, "decision %d is not known", (int) in->decision);
    for (size_t i = 0; i < in->n_labels; i++)
        label_list_add(&labels, in->labels[i]->key, in->labels[i]->value);
    page.limit = page.limit ? page.limit : PAGE_DEFAULT;
    if (r == 0)
        r = sandboxes_list(request->service, &request->caller, filter, &page, &rows, err);
    if (r < 0)
        return r;
    Sandbox__V1__ListSandboxesResponse *out = message_new(&sandbox__v1__list_sandboxes_response__descriptor);
    out->sandboxes = rows.count > 0 ? xalloc(rows.count * sizeof(*out->sandboxes)) : NULL;
    while (out->n_sandboxes < rows.count) {
        out->sandboxes[out->n_sandboxes] = make_sandbox_of_row(request->service, &rows.rows[out->n_sandboxes]);
        out->n_sandboxes++;
    }
    out->next_page_token = make_string(rows.next_token);
    *ret = &out->base;
    return 0;
}
