#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "policy/preset.h"
#include "policy/ruleset.h"
#include "service/claims.h"
#include "service/git_head.h"
#include "service/janitor.h"
#include "service/life.h"
#include "service/profiles.h"
#include "service/row_info.h"
#include "service/workspace_int.h"
#include "service/workspace_scope.h"
#include "wire/runtime_type.h"

#define DEFAULT_PRESET "development"

/* ---- what is made of the request ---- */

static char *dump(const json_t *value, const char *otherwise)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

    return text ? text : xdup(otherwise);
}

static int make_rules(const struct workspace_request *request, const char *driver, int scope_fd, struct rule_list *ret,
                      struct err *err)
{
    bool has_rules = request->rules && request->rules->count > 0;
    bool checks = strcmp(driver, WORKSPACE_DRIVER) == 0;
    const char *preset = *request->preset || has_rules || !checks ? request->preset : DEFAULT_PRESET;
    autoptr(ruleset) compiled = NULL;
    struct ruleset_options options = { 0 };
    struct stat st;
    int r = *preset ? preset_add(preset, ret, err) : 0;

    options.workspace_is_real = fstatat(scope_fd, "workspace", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
    if (r == 0 && has_rules)
        r = rule_list_add_all(ret, request->rules, err);
    if (r == 0 && !checks && ret->count == 0)
        r = rule_list_add(ret, "/**", strlen("/**"), RULE_UNSPECIFIED, LEVEL_WRITE, 0, err);
    if (r == 0 && !checks && !rule_list_forbids_nothing(ret))
        return err_reject(err, -EINVAL, driver, "is a driver that checks nothing, and these rules forbid something; use fence");
    return r < 0 ? r : ruleset_new(ret, &options, &compiled, err);
}

char *workspace_profile(const struct sandbox_row *row)
{
    json_t *extra = row->extra.len ? json_loadb(row->extra.data, row->extra.len, 0, NULL) : NULL;
    const char *id = json_string_value(json_object_get(extra, "profile"));
    char *copy = xdup(id ? id : "");

    json_decref(extra);
    return copy;
}

bool workspace_wants_host_mount(const struct sandbox_row *row)
{
    json_t *extra = row->extra.len ? json_loadb(row->extra.data, row->extra.len, 0, NULL) : NULL;
    bool wants = json_is_true(json_object_get(extra, "hostMount"));

    json_decref(extra);
    return wants;
}

/* What the driver copy works on is on the host anyway. Where the server's options ask for it, it is for all who can have it. */
static int choose_host_mount(struct service *service, const struct caller *caller, const struct workspace_request *request,
                             const char *driver, bool *ret, struct err *err)
{
    bool is_fence = strcmp(driver, WORKSPACE_DRIVER) == 0;

    *ret = !request->host_mount && service->options.mounts_on_host && is_fence && geteuid() == 0;
    if (!request->host_mount || !*request->host_mount || strcmp(driver, "copy") == 0)
        return 0;
    if (!caller->is_admin)
        return err_set(err, ERR_PERMISSION_DENIED, -EPERM, "hostMount is for administrators: it makes a mount of the host's");
    if (!is_fence)
        return err_set(err, ERR_FAILED_PRECONDITION, -EOPNOTSUPP, "hostMount does not go with the driver %s; use fence or copy",
                       driver);
    if (geteuid() != 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -EPERM,
                       "hostMount takes a server that runs as root; without it, use exec and files, or the driver copy");
    *ret = true;
    return 0;
}

/* Its id is kept: another may become the default. */
static int take_extra(struct service *service, const char *wanted, bool host_mount, struct sandbox_row *row, struct err *err)
{
    autodone(profile) struct profile profile = { 0 };
    int r = profiles_get(service, wanted, &profile, err);

    if (r == -ENOENT && *wanted)
        err->code = ERR_INVALID_ARGUMENT;
    if (r < 0)
        return r;
    json_t *extra = json_pack("{s:s}", "profile", profile.id);
    if (host_mount)
        json_object_set_new(extra, "hostMount", json_true());
    autofree char *text = json_dumps(extra, JSON_COMPACT);
    json_decref(extra);
    buf_add_str(&row->extra, text);
    return 0;
}

/* What makes two requests the same. */
static void describe(const struct workspace_request *request, struct buf *text)
{
    autofree char *tags = dump(request->tags, ""), *metadata = dump(request->metadata, ""),
                  *behavior = dump(request->behavior, "");

    buf_addf(text, "%s%c%s%c%d%c%s%c%s%c%s%c%s%c%s%c%s%c", request->project_root, 0, request->scope_path, 0, request->no_lock,
             0, request->owner, 0, request->owner_type, 0, tags, 0, metadata, 0, behavior, 0, request->preset, 0);
    buf_addf(text, "%s%c", request->driver, 0);
    /* those without hash as they always did */
    if (*request->profile)
        buf_addf(text, "profile %s%c", request->profile, 0);
    if (request->host_mount)
        buf_addf(text, "host_mount %d%c", *request->host_mount, 0);
    for (const char *const *path = request->reserved_paths; path && *path; path++)
        buf_addf(text, "%s%c", *path, 0);
    for (size_t i = 0; request->rules && i < request->rules->count; i++)
        buf_addf(text, "%s%c%d %d %d%c", request->rules->items[i].pattern, 0, (int) request->rules->items[i].type,
                 (int) request->rules->items[i].level, (int) request->rules->items[i].priority, 0);
}

static int check_request(struct service *service, const struct workspace_request *request, struct err *err)
{
    static const char *const types[] = { "agent", "user", "task", "system" };
    bool is_type = !*request->owner_type;

    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        is_type |= strcmp(request->owner_type, types[i]) == 0;
    if (!is_type)
        return err_reject(err, -EINVAL, request->owner_type, "is no ownerType; there are agent, user, task, system");
    if (service->options.requires_human &&
        json_is_true(json_object_get(json_object_get(request->behavior, "acceptance"), "autoApprove")))
        return err_invalid(err,
                           "autoApprove is not for this server: a person has to approve (workspace.require_human_approval)");
    if (!workspace_driver_choose(service, request->driver, NULL))
        return err_set_reason(err, err_reject(err, -EINVAL, request->driver, "is no driver that this server has"),
                              "DRIVER_UNKNOWN");
    return 0;
}

/* Over a live directory it is no container. */
static const struct runtime_type *runtime_of(const struct service *service)
{
    const struct runtime_type *runtime = runtime_type_of_number(service->options.runtime);

    return runtime->needs_image ? runtime_type_default(false) : runtime;
}

/* `ret_scope_fd` is the directory that was checked: from here on everybody uses that, and not its name. */
static int fill(struct service *service, const struct caller *caller, const struct workspace_request *request,
                struct sandbox_row *row, char ret_reason[DRIVER_TRIAL_REASON_MAX], int *ret_scope_fd, struct err *err)
{
    autodone(workspace_scope) struct workspace_scope scope = WORKSPACE_SCOPE_NONE;
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    const char *root = *request->project_root ? request->project_root : service->options.project_root;
    struct workspace_scope_request where = {
        .project_root = root ? root : "",
        .scope_path = request->scope_path,
        .reserved = request->reserved_paths,
        .no_lock = request->no_lock,
        .state_path = service->state_dir.path,
    };
    char id[ID_TEXT_MAX], head[GIT_HEAD_MAX];
    const char *driver = NULL;
    bool host_mount = false;
    int r = check_request(service, request, err);

    /* Where nothing else is said, a scope that is named whole is a project of its own; whether this caller may have it is seen below. */
    if (r == 0 && !*where.project_root && *where.scope_path == '/')
        where.project_root = where.scope_path;
    if (r == 0 && !*where.project_root)
        r = err_invalid(err, "projectRoot is required: this server has no default (workspace.project_root)");
    if (r == 0)
        r = workspace_scope_resolve(&where, caller, &scope, err);
    if (r == 0)
        driver = workspace_driver_choose(service, request->driver, ret_reason);
    if (r == 0)
        r = choose_host_mount(service, caller, request, driver, &host_mount, err);
    if (r == 0)
        r = make_rules(request, driver, scope.scope_fd, &rules, err);
    if (r < 0)
        return r;
    id_new(SANDBOX_ID_PREFIX, id);
    *row = (struct sandbox_row){
        .id = xdup(id),
        .owner_id = xdup(caller->owner),
        .host_id = xdup(service->host_id),
        .scope_path = steal_ptr(&scope.scope_path),
        .project_root = steal_ptr(&scope.project_root),
        .reserved_paths = steal_ptr(&scope.reserved_paths),
        .no_lock = request->no_lock,
        .name = xdup(""),
        .codebase_id = xdup(""),
        .restarts = true,
        .creator = xdup(*request->owner ? request->owner : caller->owner),
        .creator_type = xdup(*request->owner_type ? request->owner_type : "user"),
        .status = SANDBOX_STATUS_CREATING,
        .reason = xdup(""),
        .runtime = runtime_of(service)->api_number,
        .driver = xdup(driver),
        .image = xdup(""),
        .network = xdup(""),
        .preset = xdup(request->preset),
        .tags = dump(request->tags, "[]"),
        .metadata = dump(request->metadata, "{}"),
        .behavior = dump(request->behavior, "{}"),
        .idempotency_key = xdup(request->idempotency_key),
        .created_ns = clock_wall_ns(),
    };
    row->base_commit = xdup(git_head_read(row->project_root, caller->allowed_roots, head) ? head : "");
    row->used_ns = row->updated_ns = row->created_ns;
    rules_encode(&rules, &row->rules);
    *ret_scope_fd = steal_fd(&scope.scope_fd);
    return take_extra(service, request->profile, host_mount, row, err);
}

/* ---- making it ---- */

static int make_spec(struct service *service, const struct sandbox_row *row, struct sandbox_spec **ret, struct err *err)
{
    autoptr(sandbox_spec) spec = xnew(struct sandbox_spec);
    const struct sandbox_limits *limits = &service->options.limits;
    autodone(profile) struct profile profile = { 0 };
    autofree char *profile_id = workspace_profile(row);
    int r;

    spec->name = xdup(row->id);
    spec->base_path = xdup(row->scope_path);
    spec->codebase_path = xdup("");
    spec->runtime = xdup(runtime_of(service)->name);
    spec->hostname = xdup("");
    spec->is_live = true;
    spec->own_cgroup = true;
    spec->created_ns = (uint64_t) row->created_ns;
    spec->memory_bytes = (uint64_t) limits->memory_bytes;
    spec->cpu_quota_us = (uint32_t) limits->cpu_quota_us;
    spec->cpu_shares = (uint32_t) limits->cpu_shares;
    spec->pids = (uint32_t) limits->pids;
    spec->quota_bytes =
        (uint64_t) (service->options.workspace_bytes_max ? (int64_t) service->options.workspace_bytes_max : limits->disk_bytes);
    spec->quota_inodes = (uint64_t) limits->disk_inodes;
    spec->driver = xdup(row->driver);
    /* Nobody would hold them to it. */
    if (strcmp(row->driver, WORKSPACE_DRIVER) != 0)
        spec->quota_bytes = spec->quota_inodes = 0;
    r = sandbox_spec_rules_decode(spec, row->rules.data, row->rules.len, err);
    if (r == 0)
        r = profiles_get(service, profile_id, &profile, err);
    if (r == 0)
        r = profile_apply(&profile, service->options.allows_host_network, spec, err);
    if (r == 0)
        *ret = steal_ptr(&spec);
    return r;
}

static int build(struct service *service, struct ward *ward, struct sandbox_row *row, int scope_fd, int cancel_fd,
                 struct err *err)
{
    autoptr(sandbox_spec) spec = NULL;
    autofd int dir_fd = -1;
    int r = make_spec(service, row, &spec, err);

    if (r == 0)
        r = state_dir_create(&service->state_dir, spec, true, &dir_fd, err);
    fault("workspace_dir_made");
    if (r == 0)
        r = workspace_boot(service, ward, row, scope_fd, cancel_fd, err);
    fault("workspace_booted");
    return r < 0 ? r
                 : workspace_step(service, row, SANDBOX_STATE_BIT(SANDBOX_STATE_CREATING), 0, SANDBOX_STATE_ACTIVE, NULL, err);
}

/* Nothing of it is left but a record of why. */
static void take_back(struct service *service, struct ward *ward, struct sandbox_row *row, const char *why)
{
    /* Who asks again with the same key wants one, and not to hear of this one. */
    const struct sandbox_move move = {
        .id = row->id, .to = SANDBOX_STATUS_ERROR, .reason = why, .forgets_key = true, .now_ns = clock_wall_ns()
    };
    struct err ignored = ERR_NONE;

    life_end(service, ward); /* it may run, and only its row could not be written */
    sandbox_row_move(service->store, &move, NULL, &ignored);
    ignored = ERR_NONE;
    /* A supervisor that has not quite ended yet may hold it. */
    if (fault_is("workspace-held") ||
        (state_dir_remove(&service->state_dir, row->id, &ignored) < 0 && ignored.code != ERR_NOT_FOUND))
        janitor_doubt(service);
}

static int make(struct service *service, const struct caller *caller, struct sandbox_row *row, const char *reason, int scope_fd,
                struct err *err)
{
    struct workspace_totals *totals = workspaces_totals(service);
    int64_t began_ns = clock_now_ns();
    autoptr(ward) ward = NULL;
    int r;

    ward = ward_get(&service->wards, row->id);
    pthread_mutex_lock(&ward->life);
    r = build(service, ward, row, scope_fd, caller->cancel_fd, err);
    if (r < 0) {
        take_back(service, ward, row, err->text);
        totals->errors++;
        err_wrap(err, r, "failed to make sandbox %s", row->id);
        if (err->code != ERR_RESOURCE_EXHAUSTED && err->code != ERR_UNAVAILABLE)
            err->code = ERR_INTERNAL;
        err_set_reason(err, r, "DRIVER_FAILED");
    }
    pthread_mutex_unlock(&ward->life);
    if (r < 0)
        return r;
    totals->created++;
    totals->create_ns += (uint64_t) (clock_now_ns() - began_ns);
    workspaces_tell(service, caller, row, "workspace_created", NULL,
                    json_pack("{s:s, s:o}", "driver", row->driver, "driverReason", json_string(reason)));
    return 0;
}

int workspaces_create(struct service *service, const struct caller *caller, const struct workspace_request *request,
                      struct sandbox_row *ret, struct sandbox_conflicts *ret_conflicts, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    autodone(buf) struct buf text = BUF_EMPTY;
    struct sandbox_room room = { .max_over_directories = service->options.workspaces_max };
    char reason[DRIVER_TRIAL_REASON_MAX] = "", known_id[SANDBOX_ID_MAX];
    struct err ignored = ERR_NONE;
    autofd int scope_fd = -1;
    int r = fill(service, caller, request, &row, reason, &scope_fd, err);

    if (r < 0)
        return r;
    describe(request, &text);
    struct claim claim = { .owner = caller->owner,
                           .key = request->idempotency_key,
                           .method = "CreateWorkspace",
                           .request = &text,
                           .resource_id = row.id,
                           .lasts = true };
    r = claim_take(service, &claim, known_id, err);
    if (r == CLAIM_ANSWERED)
        return workspaces_get(service, caller, known_id, ret, err);
    /* One that is being made is shown as that, once it has a row. */
    if (r == -EALREADY && workspaces_get(service, caller, known_id, ret, &ignored) == 0) {
        *err = ERR_NONE;
        return 0;
    }
    if (r < 0)
        return r;
    r = sandbox_row_insert(service->store, &row, &room, err);
    *ret_conflicts = room.conflicts;
    fault("workspace_inserted");
    if (r == 0)
        r = make(service, caller, &row, reason, scope_fd, err);
    claim_end(service, &claim, r, row.id);
    if (r < 0)
        return r;
    *ret = row;
    row = (struct sandbox_row){ 0 };
    return 0;
}
