#include "service/sandbox_draft.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/defaults.h"
#include "base/mem.h"
#include "policy/ruleset.h"
#include "service/git_head.h"
#include "service/profiles.h"
#include "service/row_info.h"
#include "service/sandbox_rules.h"
#include "service/service_int.h"
#include "wire/runtime_type.h"

#define NAME_BYTES_MAX 63
#define LABEL_BYTES_MAX 1024
#define ENV_COUNT_MAX 256
#define TAG_COUNT_MAX 100
#define METADATA_BYTES_MAX (64u << 10)

void sandbox_draft_init(struct sandbox_draft *draft, const struct service *service, const struct sandbox_request *request,
                        struct sandbox_creation *out)
{
    int runtime = request->runtime ? request->runtime : service->options.runtime;

    *draft = (struct sandbox_draft){ .request = request,
                                     .is_over_directory = !*request->codebase_id,
                                     .is_container = runtime_type_of_number(runtime)->needs_image,
                                     .base_fd = -1,
                                     .scope = SANDBOX_SCOPE_NONE,
                                     .out = out };
    id_new(SANDBOX_ID_PREFIX, draft->id);
}

void sandbox_draft_done(struct sandbox_draft *draft)
{
    cleanup_fd(&draft->base_fd);
    sandbox_scope_done(&draft->scope);
    codebase_row_done(&draft->codebase);
    rule_list_done(&draft->rules);
    profile_done(&draft->profile);
    sandbox_spec_free(draft->spec);
}

/* ---- checks ---- */

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

static int check_name(const char *name, struct err *err)
{
    char id[SANDBOX_ID_MAX];

    if (!*name || (strlen(name) <= NAME_BYTES_MAX && isalnum((unsigned char) *name) && sandbox_name_is_valid(name) &&
                   sandbox_id_parse(name, id) < 0))
        return 0;
    return err_reject(err, -EINVAL, name, "is no name of a sandbox; it has up to 63 letters, digits and '._-', and is no id");
}

static int refuse_network(const char *what, const char *key, struct err *err)
{
    return err_set_reason(
        err, err_set(err, ERR_PERMISSION_DENIED, -EPERM, "this server gives no %s; %s in its configuration would", what, key),
        "NETWORK_NOT_ALLOWED");
}

static int check_network(const struct service *service, const struct sandbox_draft *draft, struct err *err)
{
    const char *network = draft->request->network;
    bool is_host = strcmp(network, "host") == 0, is_bridge = strcmp(network, "bridge") == 0;

    if (!*network || strcmp(network, "none") == 0)
        return 0;
    if (!is_host && !is_bridge)
        return err_reject(err, -EINVAL, network, "is no network; there are 'none', 'host' and, in a container, 'bridge'");
    if (is_bridge && !draft->is_container)
        return err_invalid(err, "the network 'bridge' is the Docker engine's, and this sandbox is no container; 'none' and "
                                "'host' can be had");
    if (is_host && !service->options.allows_host_network)
        return refuse_network("sandbox the host's network", "sandbox.allow_host_network", err);
    if (draft->is_container && !service->options.container.allows_network)
        return refuse_network("container a network", "runtime.docker.enable_networking", err);
    return 0;
}

static int check_limits(const struct sandbox_limits *limits, struct err *err)
{
    if (limits->cpu_quota_us > UINT32_MAX || limits->cpu_shares > UINT32_MAX || limits->pids > UINT32_MAX)
        return err_invalid(err, "resources: a limit is too large");
    return 0;
}

static int check_creator(const struct service *service, const struct sandbox_request *request, struct err *err)
{
    static const char *const types[] = { "agent", "user", "task", "system" };
    bool is_type = !*request->creator_type;

    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        is_type |= strcmp(request->creator_type, types[i]) == 0;
    if (!is_type)
        return err_reject(err, -EINVAL, request->creator_type, "is no ownerType; there are agent, user, task, system");
    if (service->options.requires_human &&
        json_is_true(json_object_get(json_object_get(request->behavior, "acceptance"), "autoApprove")))
        return err_invalid(err,
                           "autoApprove is not for this server: a person has to approve (workspace.require_human_approval)");
    return 0;
}

/* Refuses fields that would have no effect, so that no client believes that they have one. */
static int check_base(const struct sandbox_draft *draft, struct err *err)
{
    const struct sandbox_request *request = draft->request;

    if (!draft->is_over_directory && (*request->scope_path || *request->project_root ||
                                      (request->reserved_paths && *request->reserved_paths) || request->no_lock))
        return err_set_reason(err,
                              err_invalid(err,
                                          "a sandbox is over a codebase or over a directory, and not over both; leave out the "
                                          "codebase's id, or the directory, the project root and the reserved paths"),
                              "BASE_IS_CODEBASE");
    if (draft->is_over_directory && request->sync == SANDBOX_SYNC_ON)
        return err_invalid(err,
                           "only changes over a codebase are synced when a command ends; those over a directory wait until "
                           "they are approved");
    if (request->profile && *request->profile && *request->network)
        return err_invalid(err, "the profile '%s' says which network there is; leave out the profile or the network",
                           request->profile);
    return 0;
}

static int check_notes(const struct sandbox_request *request, struct err *err)
{
    if (json_array_size(request->tags) > TAG_COUNT_MAX)
        return err_invalid(err, "%zu tags are too many, %d is the most", json_array_size(request->tags), TAG_COUNT_MAX);
    if (request->metadata && json_dumpb(request->metadata, NULL, 0, JSON_COMPACT) > METADATA_BYTES_MAX)
        return err_invalid(err, "metadata is larger than %u bytes", METADATA_BYTES_MAX);
    return 0;
}

static int choose_driver(struct service *service, struct sandbox_draft *draft, struct err *err)
{
    const char *wanted = draft->request->driver;

    draft->driver =
        *wanted || draft->is_over_directory ? sandbox_driver_choose(service, wanted, draft->driver_reason) : SANDBOX_DRIVER;
    if (!draft->driver)
        return err_set_reason(err, err_reject(err, -EINVAL, wanted, "is no driver that this server has"), "DRIVER_UNKNOWN");
    if (strcmp(draft->driver, SANDBOX_DRIVER) != 0 && (draft->is_container || !draft->is_over_directory))
        return err_reject(err, -EINVAL, draft->driver,
                          draft->is_container ? "is a driver that containers do not go with; use fence"
                                              : "is a driver that sandboxes over codebases do not go with; use fence");
    return 0;
}

static int check_request(struct service *service, struct sandbox_draft *draft, struct err *err)
{
    const struct sandbox_request *request = draft->request;
    int r = check_labels(request->labels, err);

    if (r == 0 && !runtime_type_is_offered(request->runtime) && request->runtime != sandboxes_plain_runtime(service))
        r = err_invalid(err, "runtime %d is not known", request->runtime);
    if (r == 0)
        r = check_env(request->env, err);
    if (r == 0)
        r = check_name(request->name, err);
    if (r == 0)
        r = check_network(service, draft, err);
    if (r == 0 && draft->is_container && *request->image && !sandbox_image_is_valid(request->image))
        r = err_reject(err, -EINVAL, request->image, "is no name of an image");
    if (r == 0)
        r = check_limits(&request->limits, err);
    if (r == 0)
        r = check_creator(service, request, err);
    if (r == 0)
        r = check_base(draft, err);
    if (r == 0)
        r = check_notes(request, err);
    return r < 0 ? r : choose_driver(service, draft, err);
}

/* ---- the base ---- */

static int resolve_codebase(struct service *service, const struct caller *caller, struct sandbox_draft *draft, struct err *err)
{
    autoptr(codebase) codebase = NULL;
    int r = service_get_codebase(service, caller, draft->request->codebase_id, &draft->codebase, err);

    if (r == 0)
        r = service_check_host(service, &draft->codebase, err);
    if (r == 0)
        r = codebase_open(service->codebases, draft->request->codebase_id, &codebase, err);
    if (r < 0)
        return r;
    draft->base_fd = fcntl(codebase_files_fd(codebase), F_DUPFD_CLOEXEC, 3);
    return draft->base_fd < 0 ? err_errno(err, -errno, "opening codebase '%s'", draft->request->codebase_id) : 0;
}

static int resolve_directory(struct service *service, const struct caller *caller, struct sandbox_draft *draft, struct err *err)
{
    const struct sandbox_request *request = draft->request;
    struct sandbox_scope_request where = {
        .project_root = *request->project_root ? request->project_root : service->options.project_root,
        .scope_path = request->scope_path,
        .reserved = request->reserved_paths,
        .no_lock = request->no_lock,
        .state_path = service->state_dir.path,
    };
    int r;

    /* Without a project root an absolute scope is its own project. sandbox_scope_resolve() checks whether the caller may use it. */
    if (!*where.project_root && *where.scope_path == '/')
        where.project_root = where.scope_path;
    if (!*where.project_root)
        return err_invalid(err, "projectRoot is required: this server has no default (workspace.project_root)");
    r = sandbox_scope_resolve(&where, caller, &draft->scope, err);
    if (r == 0)
        draft->base_fd = steal_fd(&draft->scope.scope_fd);
    return r;
}

/* The copy driver works on files of the host anyway. If the options ask for host mounts, every sandbox that can have one gets one. */
static int choose_host_mount(struct service *service, const struct caller *caller, struct sandbox_draft *draft, struct err *err)
{
    const bool *wanted = draft->request->host_mount;
    bool is_fence = strcmp(draft->driver, SANDBOX_DRIVER) == 0;

    draft->host_mount = !wanted && draft->is_over_directory && !draft->is_container && service->options.mounts_on_host &&
                        is_fence && geteuid() == 0;
    if (!wanted || !*wanted || strcmp(draft->driver, "copy") == 0)
        return 0;
    if (!caller->is_admin)
        return err_set(err, ERR_PERMISSION_DENIED, -EPERM, "hostMount is for administrators: it makes a mount of the host's");
    if (!is_fence)
        return err_set(err, ERR_FAILED_PRECONDITION, -EOPNOTSUPP, "hostMount does not go with the driver %s; use fence or copy",
                       draft->driver);
    if (draft->is_container)
        return err_set(err, ERR_FAILED_PRECONDITION, -EOPNOTSUPP, "hostMount does not go with containers");
    if (geteuid() != 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -EPERM,
                       "hostMount takes a server that runs as root; without it, use exec and files, or the driver copy");
    draft->host_mount = true;
    return 0;
}

/* ---- rules ---- */

static int make_rules(struct sandbox_draft *draft, struct err *err)
{
    const struct sandbox_request *request = draft->request;
    bool checks = strcmp(draft->driver, SANDBOX_DRIVER) == 0;
    const char *preset = draft->is_over_directory && !*request->preset && request->rules->count == 0 && checks
                             ? DEFAULT_PRESET
                             : request->preset;
    int r = sandbox_rules_join(draft->base_fd, preset, request->rules, &draft->rules, &draft->out->warnings, err);

    if (r < 0 || checks)
        return r;
    if (draft->rules.count == 0)
        return rule_list_add(&draft->rules, "/**", strlen("/**"), RULE_UNSPECIFIED, LEVEL_WRITE, 0, err);
    if (!rule_list_forbids_nothing(&draft->rules))
        return err_reject(err, -EINVAL, draft->driver,
                          "is a driver that checks nothing, and these rules forbid something; use fence");
    return 0;
}

/* The row keeps the id of the profile, because another one may become the default. */
static int take_profile(struct service *service, struct sandbox_draft *draft, struct err *err)
{
    const char *wanted = draft->request->profile;
    int r = wanted ? profiles_get(service, wanted, &draft->profile, err) : 0;

    if (r == -ENOENT && *wanted)
        err->code = ERR_INVALID_ARGUMENT;
    return r;
}

/* ---- row and spec ---- */

static char *dump(const json_t *value, const char *otherwise)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

    return text ? text : xdup(otherwise);
}

static void add_extra(const struct sandbox_draft *draft, struct buf *out)
{
    json_t *extra = json_object();

    if (draft->request->profile)
        json_object_set_new(extra, "profile", json_string(draft->profile.id));
    if (draft->host_mount)
        json_object_set_new(extra, "hostMount", json_true());
    autofree char *text = json_dumps(extra, JSON_COMPACT);
    json_decref(extra);
    buf_add_str(out, text);
}

static void fill_limits(const struct service *service, struct sandbox_draft *draft)
{
    const struct sandbox_limits *own = &draft->request->limits, *ours = &service->options.limits;
    int64_t usual = draft->is_over_directory && service->options.workspace_bytes_max
                        ? (int64_t) service->options.workspace_bytes_max
                        : ours->disk_bytes;
    struct sandbox_row *row = &draft->out->row;
    struct sandbox_spec *spec = draft->spec;

    row->memory_bytes = own->memory_bytes ? own->memory_bytes : ours->memory_bytes;
    row->cpu_quota = own->cpu_quota_us ? own->cpu_quota_us : ours->cpu_quota_us;
    row->cpu_shares = own->cpu_shares ? own->cpu_shares : ours->cpu_shares;
    row->pids_limit = own->pids ? own->pids : ours->pids;
    row->disk_bytes = own->disk_bytes ? own->disk_bytes : usual;
    draft->out->disk_inodes = own->disk_inodes ? own->disk_inodes : ours->disk_inodes;
    /* Only the fence enforces these limits. */
    if (strcmp(draft->driver, SANDBOX_DRIVER) != 0)
        row->disk_bytes = draft->out->disk_inodes = 0;
    spec->memory_bytes = (uint64_t) row->memory_bytes;
    spec->cpu_quota_us = (uint32_t) row->cpu_quota;
    spec->cpu_shares = (uint32_t) row->cpu_shares;
    spec->pids = (uint32_t) row->pids_limit;
    spec->quota_bytes = (uint64_t) row->disk_bytes;
    spec->quota_inodes = (uint64_t) draft->out->disk_inodes;
}

static void fill_row(struct service *service, const struct caller *caller, struct sandbox_draft *draft)
{
    const struct sandbox_request *request = draft->request;
    int64_t now = clock_wall_ns(), lasts = request->expires_in_ns;
    struct sandbox_row *row = &draft->out->row;
    char head[GIT_HEAD_MAX] = "";

    if (lasts == 0 && !draft->is_over_directory)
        lasts = service->options.default_expiration_ns;
    if (draft->is_over_directory && !git_head_read(draft->scope.project_root, caller->allowed_roots, head))
        head[0] = '\0';
    *row = (struct sandbox_row){
        .id = xdup(draft->id),
        .name = xdup(request->name),
        .owner_id = xdup(draft->is_over_directory ? caller->owner : draft->codebase.owner_id),
        .host_id = xdup(service->host_id),
        .codebase_id = xdup(request->codebase_id),
        .scope_path = draft->is_over_directory ? steal_ptr(&draft->scope.scope_path) : xdup(""),
        .project_root = draft->is_over_directory ? steal_ptr(&draft->scope.project_root) : xdup(""),
        .reserved_paths = steal_ptr(&draft->scope.reserved_paths),
        .no_lock = request->no_lock,
        .status = SANDBOX_STATUS_CREATING,
        .reason = xdup(""),
        .restarts = request->restarts,
        .creator = xdup(*request->creator ? request->creator : caller->owner),
        .creator_type = xdup(*request->creator_type ? request->creator_type : "user"),
        .preset = xdup(request->preset),
        .tags = dump(request->tags, "[]"),
        .metadata = dump(request->metadata, "{}"),
        .behavior = dump(request->behavior, "{}"),
        .runtime = request->runtime ? request->runtime : service->options.runtime,
        .driver = xdup(draft->driver),
        .image = xdup(*request->image || !draft->is_container ? request->image : service->options.container.image),
        .network = xdup(*request->network     ? request->network
                        : draft->is_container ? service->options.container.network
                                              : "none"),
        .sync_on_completion =
            !draft->is_over_directory && (request->sync ? request->sync == SANDBOX_SYNC_ON : service->options.syncs),
        .base_commit = xdup(head),
        .idempotency_key = xdup(request->idempotency_key),
        .created_ns = now,
        .used_ns = now,
        .updated_ns = now,
        .expires_ns = lasts > 0 && lasts < INT64_MAX - now ? now + lasts : 0,
    };
    rules_encode(&draft->rules, &row->rules);
    for (size_t i = 0; i < request->labels->count; i++)
        label_list_add(&row->labels, request->labels->items[i].key, request->labels->items[i].value);
    add_extra(draft, &row->extra);
}

static void fill_container(const struct service *service, struct sandbox_draft *draft)
{
    const struct container_options *ours = &service->options.container;
    bool is = draft->is_container;
    struct sandbox_spec *spec = draft->spec;

    spec->image = xdup(is ? draft->out->row.image : "");
    spec->engine = xdup(is ? ours->engine : "");
    spec->oci_runtime = xdup(is ? ours->oci_runtime : "");
    spec->read_only_root = is && ours->has_read_only_root;
    spec->no_pull = is && !ours->pulls;
}

static int fill_spec(struct service *service, struct sandbox_draft *draft, struct err *err)
{
    const struct sandbox_request *request = draft->request;
    struct sandbox_row *row = &draft->out->row;
    struct sandbox_spec *spec = draft->spec = xnew(struct sandbox_spec);

    spec->id = xdup(draft->id);
    spec->name = xdup(row->name);
    spec->owner = xdup(row->owner_id);
    spec->codebase_id = xdup(row->codebase_id);
    spec->project_root = xdup(row->project_root);
    spec->preset = xdup(row->preset);
    spec->no_lock = row->no_lock;
    spec->syncs = row->sync_on_completion;
    for (char **path = row->reserved_paths; path && *path; path++)
        sandbox_spec_add_reserved(spec, *path);
    spec->base_path = draft->is_over_directory ? xdup(row->scope_path)
                                               : xprintf("%s/%s/files", service->options.codebase_path, request->codebase_id);
    spec->is_live = draft->is_over_directory;
    if (row->sync_on_completion) {
        spec->codebase_path = xprintf("%s/%s", service->options.codebase_path, request->codebase_id);
        spec->codebase_quota_bytes = service->options.codebase_quota_bytes;
        spec->codebase_keep_versions = service->options.versions_kept;
        spec->codebase_keep_ns = (uint64_t) service->options.versions_age_ns;
    } else {
        spec->codebase_path = xdup("");
    }
    spec->runtime = xdup(runtime_type_of_number(row->runtime)->name);
    spec->hostname = xdup("");
    spec->own_cgroup = draft->is_over_directory;
    spec->net = strcmp(row->network, "host") == 0     ? SANDBOX_NET_HOST
                : strcmp(row->network, "bridge") == 0 ? SANDBOX_NET_BRIDGE
                                                      : SANDBOX_NET_NONE;
    spec->created_ns = (uint64_t) row->created_ns;
    spec->driver = xdup(row->driver);
    fill_container(service, draft);
    fill_limits(service, draft);
    for (size_t i = 0; i < draft->rules.count; i++)
        sandbox_spec_add_rule(spec, draft->rules.items[i].pattern, (uint8_t) draft->rules.items[i].type,
                              (uint8_t) draft->rules.items[i].level, draft->rules.items[i].priority);
    for (size_t i = 0; i < request->env->count; i++) {
        autofree char *assignment = xprintf("%s=%s", request->env->items[i].key, request->env->items[i].value);
        sandbox_spec_add_env(spec, assignment);
    }
    if (!request->profile)
        return 0;
    int r = profile_apply(&draft->profile, service->options.allows_host_network, spec, err);
    free(row->network);
    row->network = xdup(spec->net == SANDBOX_NET_HOST ? "host" : "none");
    return r;
}

static void add_rules(const struct rule_list *rules, struct buf *out)
{
    for (size_t i = 0; i < rules->count; i++)
        buf_addf(out, "%s%c%d %d %d%c", rules->items[i].pattern, 0, (int) rules->items[i].type, (int) rules->items[i].level,
                 (int) rules->items[i].priority, 0);
}

static void add_text(const char *what, const char *value, struct buf *out)
{
    if (*value)
        buf_addf(out, "%s %s%c", what, value, 0);
}

static void add_number(const char *what, int64_t value, struct buf *out)
{
    if (value)
        buf_addf(out, "%s %lld%c", what, (long long) value, 0);
}

static void add_pairs(const char *what, const struct pair_list *pairs, struct buf *out)
{
    for (size_t i = 0; i < pairs->count; i++)
        buf_addf(out, "%s %s%c%s%c", what, pairs->items[i].key, 0, pairs->items[i].value, 0);
}

static void describe_over_codebase(const struct sandbox_request *request, struct buf *out)
{
    autofree char *tags = dump(request->tags, ""), *metadata = dump(request->metadata, ""),
                  *behavior = dump(request->behavior, "");

    buf_addf(out, "%s%c%s%c%lld %d %s%c%s%c%d ", request->codebase_id, 0, request->preset, 0,
             (long long) request->expires_in_ns, request->runtime, request->image, 0, request->network, 0, (int) request->sync);
    buf_addf(out, "%lld %lld %lld %lld %lld %lld ", (long long) request->limits.memory_bytes,
             (long long) request->limits.cpu_quota_us, (long long) request->limits.cpu_shares, (long long) request->limits.pids,
             (long long) request->limits.disk_bytes, (long long) request->limits.disk_inodes);
    for (size_t i = 0; i < request->labels->count; i++)
        buf_addf(out, "%s%c%s%c", request->labels->items[i].key, 0, request->labels->items[i].value, 0);
    for (size_t i = 0; i < request->env->count; i++)
        buf_addf(out, "%s=%s%c", request->env->items[i].key, request->env->items[i].value, 0);
    add_rules(request->rules, out);
    add_text("name", request->name, out);
    add_text("driver", request->driver, out);
    add_text("profile", request->profile ? request->profile : "", out);
    add_text("creator", request->creator, out);
    add_text("creator_type", request->creator_type, out);
    add_text("tags", tags, out);
    add_text("metadata", metadata, out);
    add_text("behavior", behavior, out);
    add_number("host_mount", request->host_mount ? 1 + *request->host_mount : 0, out);
    add_number("restarts", request->restarts, out);
    add_number("starts", request->starts, out);
}

static void describe_over_directory(const struct sandbox_request *request, struct buf *out)
{
    autofree char *tags = dump(request->tags, ""), *metadata = dump(request->metadata, ""),
                  *behavior = dump(request->behavior, "");

    buf_addf(out, "%s%c%s%c%d%c%s%c%s%c%s%c%s%c%s%c%s%c", request->project_root, 0, request->scope_path, 0, request->no_lock, 0,
             request->creator, 0, request->creator_type, 0, tags, 0, metadata, 0, behavior, 0, request->preset, 0);
    buf_addf(out, "%s%c", request->driver, 0);
    if (request->profile && *request->profile)
        buf_addf(out, "profile %s%c", request->profile, 0);
    if (request->host_mount)
        buf_addf(out, "host_mount %d%c", *request->host_mount, 0);
    for (const char *const *path = request->reserved_paths; path && *path; path++)
        buf_addf(out, "%s%c", *path, 0);
    add_rules(request->rules, out);
    add_pairs("label", request->labels, out);
    add_pairs("env", request->env, out);
    add_text("image", request->image, out);
    add_text("network", request->network, out);
    add_number("runtime", runtime_type_of_number(request->runtime)->needs_image ? request->runtime : 0, out);
    add_number("expires", request->expires_in_ns, out);
    add_number("memory", request->limits.memory_bytes, out);
    add_number("quota", request->limits.cpu_quota_us, out);
    add_number("shares", request->limits.cpu_shares, out);
    add_number("pids", request->limits.pids, out);
    add_number("disk", request->limits.disk_bytes, out);
    add_number("inodes", request->limits.disk_inodes, out);
    add_text("name", request->name, out);
    add_number("left at rest", !request->starts, out); /* requests of the oldest claims always start and restart */
    add_number("left ended", !request->restarts, out);
}

void sandbox_draft_describe(const struct sandbox_request *request, struct buf *out)
{
    if (*request->codebase_id)
        describe_over_codebase(request, out);
    else
        describe_over_directory(request, out);
}

int sandbox_draft_prepare(struct service *service, const struct caller *caller, struct sandbox_draft *draft, struct err *err)
{
    int r = check_request(service, draft, err);

    if (r == 0)
        r = draft->is_over_directory ? resolve_directory(service, caller, draft, err)
                                     : resolve_codebase(service, caller, draft, err);
    if (r == 0)
        r = choose_host_mount(service, caller, draft, err);
    if (r == 0)
        r = make_rules(draft, err);
    if (r == 0)
        r = take_profile(service, draft, err);
    if (r < 0)
        return r;
    fill_row(service, caller, draft);
    return fill_spec(service, draft, err);
}
