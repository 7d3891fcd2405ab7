#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "policy/lint.h"
#include "policy/preset.h"
#include "policy/ruleset.h"
#include "service/claims.h"
#include "service/events.h"
#include "service/janitor.h"
#include "service/row_info.h"
#include "service/sandbox_rules.h"
#include "service/sandboxes.h"
#include "service/service_int.h"
#include "store/codebase_row.h"
#include "wire/runtime_type.h"

#define LABEL_BYTES_MAX 1024
#define ENV_COUNT_MAX 256
#define RULES_TOLD_MAX 50

/* One that is being made. */
struct draft {
    char id[SANDBOX_ID_MAX];
    const struct sandbox_request *request;
    struct rule_list rules;
    struct codebase_row codebase;
    struct sandbox_row row;
    struct sandbox_spec *spec;
    struct rule_warnings warnings;
};

static void draft_done(struct draft *draft)
{
    rule_list_done(&draft->rules);
    codebase_row_done(&draft->codebase);
    sandbox_row_done(&draft->row);
    sandbox_spec_free(draft->spec);
    rule_warnings_done(&draft->warnings);
}

/* ---- what can be refused ---- */

static int check_labels(const struct pair_list *labels, struct err *err)
{
    if (labels->count > LABEL_COUNT_MAX)
        return err_invalid(err, "%zu labels are too many, %d is the most", labels->count, LABEL_COUNT_MAX);
    for (size_t i = 0; i < labels->count; i++) {
        if (!*labels->items[i].key)
            return err_invalid(err, "a label without a name");
        if (strlen(labels->items[i].key) > LABEL_BYTES_MAX || strlen(labels->items[i].value) > LABEL_BYTES_MAX)
            return err_reject(err, -EINVAL, labels->items[i].key, "is a label that is too long");
    }
    return 0;
}

static int check_env(const struct pair_list *env, struct err *err)
{
    if (env->count > ENV_COUNT_MAX)
        return err_invalid(err, "%zu variables are too many, %d is the most", env->count, ENV_COUNT_MAX);
    for (size_t i = 0; i < env->count; i++) {
        if (!*env->items[i].key || strchr(env->items[i].key, '='))
            return err_reject(err, -EINVAL, env->items[i].key, "is no name of a variable");
    }
    return 0;
}

static const struct runtime_type *runtime_of(const struct service *service, const struct sandbox_request *request)
{
    return runtime_type_of_number(request->runtime ? request->runtime : service->options.runtime);
}

static bool is_container(const struct service *service, const struct sandbox_request *request)
{
    return runtime_of(service, request)->needs_image;
}

static int refuse_network(const char *what, const char *key, struct err *err)
{
    return err_set_reason(
        err, err_set(err, ERR_PERMISSION_DENIED, -EPERM, "this server gives no %s; %s in its configuration would", what, key),
        "NETWORK_NOT_ALLOWED");
}

static int check_network(const struct service *service, const struct sandbox_request *request, struct err *err)
{
    const char *network = request->network;
    bool is_host = strcmp(network, "host") == 0, is_bridge = strcmp(network, "bridge") == 0;

    if (!*network || strcmp(network, "none") == 0)
        return 0;
    if (!is_host && !is_bridge)
        return err_reject(err, -EINVAL, network, "is no network; there are 'none', 'host' and, in a container, 'bridge'");
    if (is_bridge && !is_container(service, request))
        return err_invalid(err, "the network 'bridge' is the Docker engine's, and this sandbox is no container; 'none' and "
                                "'host' can be had");
    if (is_host && !service->options.allows_host_network)
        return refuse_network("sandbox the host's network", "sandbox.allow_host_network", err);
    if (is_container(service, request) && !service->options.container.allows_network)
        return refuse_network("container a network", "runtime.docker.enable_networking", err);
    return 0;
}

static int check_image(const struct service *service, const struct sandbox_request *request, struct err *err)
{
    if (!is_container(service, request) || !*request->image || sandbox_image_is_valid(request->image))
        return 0;
    return err_reject(err, -EINVAL, request->image, "is no name of an image");
}

static int check(const struct service *service, const struct sandbox_request *request, struct err *err)
{
    int r = check_labels(request->labels, err);

    if (r == 0 && !runtime_type_is_offered(request->runtime))
        r = err_invalid(err, "runtime %d is not known", request->runtime);
    if (r == 0)
        r = check_env(request->env, err);
    if (r == 0)
        r = check_network(service, request, err);
    if (r == 0)
        r = check_image(service, request, err);
    if (r == 0 && (request->limits.cpu_quota_us > UINT32_MAX || request->limits.cpu_shares > UINT32_MAX ||
                   request->limits.pids > UINT32_MAX))
        r = err_invalid(err, "resources: a limit is too large");
    return r;
}

/* ---- what is made of the request ---- */

static void fill_limits(const struct service *service, struct draft *draft)
{
    const struct sandbox_limits *own = &draft->request->limits, *ours = &service->options.limits;
    struct sandbox_row *row = &draft->row;
    struct sandbox_spec *spec = draft->spec;

    row->memory_bytes = own->memory_bytes ? own->memory_bytes : ours->memory_bytes;
    row->cpu_quota = own->cpu_quota_us ? own->cpu_quota_us : ours->cpu_quota_us;
    row->cpu_shares = own->cpu_shares ? own->cpu_shares : ours->cpu_shares;
    row->pids_limit = own->pids ? own->pids : ours->pids;
    row->disk_bytes = own->disk_bytes ? own->disk_bytes : ours->disk_bytes;
    spec->memory_bytes = (uint64_t) row->memory_bytes;
    spec->cpu_quota_us = (uint32_t) row->cpu_quota;
    spec->cpu_shares = (uint32_t) row->cpu_shares;
    spec->pids = (uint32_t) row->pids_limit;
    spec->quota_bytes = (uint64_t) row->disk_bytes;
    spec->quota_inodes = (uint64_t) (own->disk_inodes ? own->disk_inodes : ours->disk_inodes);
}

static void fill_container(const struct service *service, struct draft *draft)
{
    const struct container_options *ours = &service->options.container;
    bool is = is_container(service, draft->request);
    struct sandbox_spec *spec = draft->spec;

    spec->image = xdup(is ? draft->row.image : "");
    spec->engine = xdup(is ? ours->engine : "");
    spec->oci_runtime = xdup(is ? ours->oci_runtime : "");
    spec->read_only_root = is && ours->has_read_only_root;
    spec->no_pull = is && !ours->pulls;
}

static void fill(struct service *service, struct draft *draft)
{
    const struct sandbox_request *request = draft->request;
    int64_t now = clock_wall_ns(),
            lasts = request->expires_in_ns ? request->expires_in_ns : service->options.default_expiration_ns;
    struct sandbox_row *row = &draft->row;
    struct sandbox_spec *spec = draft->spec = xnew(struct sandbox_spec);

    row->id = xdup(draft->id);
    row->name = xdup("");
    row->codebase_id = xdup(request->codebase_id);
    row->scope_path = xdup("");
    row->owner_id = xdup(draft->codebase.owner_id);
    row->host_id = xdup(service->host_id);
    row->status = SANDBOX_STATUS_CREATING;
    row->reason = xdup("");
    rules_encode(&draft->rules, &row->rules);
    for (size_t i = 0; i < request->labels->count; i++)
        label_list_add(&row->labels, request->labels->items[i].key, request->labels->items[i].value);
    row->runtime = runtime_of(service, request)->api_number;
    row->image = xdup(*request->image || !is_container(service, request) ? request->image : service->options.container.image);
    row->network = xdup(*request->network                ? request->network
                        : is_container(service, request) ? service->options.container.network
                                                         : "none");
    row->sync_on_completion = request->sync ? request->sync == SANDBOX_SYNC_ON : service->options.syncs;
    row->driver = xdup(WORKSPACE_DRIVER);
    row->created_ns = row->used_ns = row->updated_ns = now;
    row->expires_ns = lasts > 0 && lasts < INT64_MAX - now ? now + lasts : 0;

    spec->name = xdup(draft->id);
    spec->base_path = xprintf("%s/%s/files", service->options.codebase_path, request->codebase_id);
    if (row->sync_on_completion) {
        spec->codebase_path = xprintf("%s/%s", service->options.codebase_path, request->codebase_id);
        spec->codebase_quota_bytes = service->options.codebase_quota_bytes;
        spec->codebase_keep_versions = service->options.versions_kept;
        spec->codebase_keep_ns = (uint64_t) service->options.versions_age_ns;
    } else {
        spec->codebase_path = xdup("");
    }
    spec->runtime = xdup(runtime_of(service, request)->name);
    spec->hostname = xdup("");
    spec->own_cgroup = false;
    spec->net = strcmp(row->network, "host") == 0     ? SANDBOX_NET_HOST
                : strcmp(row->network, "bridge") == 0 ? SANDBOX_NET_BRIDGE
                                                      : SANDBOX_NET_NONE;
    fill_container(service, draft);
    spec->created_ns = (uint64_t) now;
    for (size_t i = 0; i < draft->rules.count; i++)
        sandbox_spec_add_rule(spec, draft->rules.items[i].pattern, (uint8_t) draft->rules.items[i].type,
                              (uint8_t) draft->rules.items[i].level, draft->rules.items[i].priority);
    for (size_t i = 0; i < request->env->count; i++) {
        autofree char *assignment = xprintf("%s=%s", request->env->items[i].key, request->env->items[i].value);
        sandbox_spec_add_env(spec, assignment);
    }
    fill_limits(service, draft);
}

/* Row first, directory second: a row that is CREATING, and that nobody holds, is what a server left that died, and is taken back. */
static int keep(struct service *service, struct draft *draft, struct err *err)
{
    struct sandbox_room room = { .max_per_owner = (unsigned) service->options.max_per_user };
    autoptr(ward) ward = ward_get(&service->wards, draft->id);
    struct sandbox_move made = { .id = draft->id, .to = SANDBOX_STATUS_PENDING, .now_ns = draft->row.created_ns };
    struct err ignored = ERR_NONE;
    autofd int dir_fd = -1;
    int r;

    pthread_mutex_lock(&ward->life);
    r = sandbox_row_insert(service->store, &draft->row, &room, err);
    fault("sandbox_inserted");
    if (r == -ENOENT)
        refuse_codebase(err);
    if (r == 0) {
        r = state_dir_create(&service->state_dir, draft->spec, true, &dir_fd, err);
        fault("sandbox_dir_made");
        if (r == 0)
            r = sandbox_row_move(service->store, &made, &draft->row, err);
        if (r < 0 && r != -EINPROGRESS) {
            state_dir_remove(&service->state_dir, draft->id, &ignored);
            ignored = ERR_NONE;
            if (sandbox_row_delete(service->store, draft->id, &ignored) < 0)
                janitor_doubt(service);
        }
    }
    if (r == -EINPROGRESS)
        janitor_doubt(service); /* nobody knows whether the row is there */
    pthread_mutex_unlock(&ward->life);
    return r;
}

static void tell(struct service *service, const struct draft *draft)
{
    json_t *rules = json_array();

    for (size_t i = 0; i < draft->rules.count && i < RULES_TOLD_MAX; i++) {
        const struct rule *rule = &draft->rules.items[i];

        json_array_append_new(rules, json_pack("{s:s, s:s, s:i}", "pattern", rule->pattern, "permission",
                                               level_name(rule->level), "priority", (int) rule->priority));
    }
    events_add(service, &(struct event){ .type = "sandbox_created",
                                         .sandbox_id = draft->row.id,
                                         .codebase_id = draft->row.codebase_id,
                                         .owner = draft->row.owner_id,
                                         .payload = json_pack("{s:s, s:s, s:o}", "runtime", draft->spec->runtime, "network",
                                                              draft->row.network, "permissions", rules) });
}

static int make(struct service *service, const struct caller *caller, struct draft *draft, struct sandbox_info **ret,
                struct err *err)
{
    int r = check(service, draft->request, err);

    if (r == 0)
        r = service_get_codebase(service, caller, draft->request->codebase_id, &draft->codebase, err);
    if (r == 0)
        r = service_check_host(service, &draft->codebase, err);
    if (r == 0)
        r = sandbox_rules_join(service, draft->request->codebase_id, draft->request->preset, draft->request->rules,
                               &draft->rules, &draft->warnings, err);
    if (r < 0)
        return r;
    fill(service, draft);
    r = keep(service, draft, err);
    if (r == 0)
        r = row_info_make(&draft->row, ret, err);
    if (r < 0)
        return r;
    (*ret)->limits.disk_inodes = (int64_t) draft->spec->quota_inodes;
    rule_warnings_move(&draft->warnings, *ret);
    tell(service, draft);
    return 0;
}

/* What makes two requests the same. */
static void describe(const struct sandbox_request *request, struct buf *out)
{
    buf_addf(out, "%s%c%s%c%lld %d %s%c%s%c%d ", request->codebase_id, 0, request->preset, 0,
             (long long) request->expires_in_ns, (int) request->runtime, request->image, 0, request->network, 0,
             (int) request->sync);
    buf_addf(out, "%lld %lld %lld %lld %lld %lld ", (long long) request->limits.memory_bytes,
             (long long) request->limits.cpu_quota_us, (long long) request->limits.cpu_shares, (long long) request->limits.pids,
             (long long) request->limits.disk_bytes, (long long) request->limits.disk_inodes);
    for (size_t i = 0; i < request->labels->count; i++)
        buf_addf(out, "%s%c%s%c", request->labels->items[i].key, 0, request->labels->items[i].value, 0);
    for (size_t i = 0; i < request->env->count; i++)
        buf_addf(out, "%s=%s%c", request->env->items[i].key, request->env->items[i].value, 0);
    for (size_t i = 0; i < request->rules->count; i++)
        buf_addf(out, "%s%c%d %d %d%c", request->rules->items[i].pattern, 0, (int) request->rules->items[i].type,
                 (int) request->rules->items[i].level, (int) request->rules->items[i].priority, 0);
}

int sandboxes_create(struct service *service, const struct caller *caller, const struct sandbox_request *request,
                     struct sandbox_info **ret, struct err *err)
{
    struct draft draft = { .request = request };
    autodone(buf) struct buf text = BUF_EMPTY;
    struct claim claim = {
        .owner = caller->owner, .key = request->idempotency_key, .method = "CreateSandbox", .request = &text
    };
    int r;

    id_new(SANDBOX_ID_PREFIX, draft.id);
    describe(request, &text);
    claim.resource_id = draft.id;
    r = claim_take(service, &claim, draft.id, err);
    if (r == CLAIM_ANSWERED)
        return sandboxes_get(service, caller, draft.id, ret, err);
    if (r < 0)
        return r;
    r = make(service, caller, &draft, ret, err);
    claim_end(service, &claim, r, draft.id);
    draft_done(&draft);
    return r;
}
