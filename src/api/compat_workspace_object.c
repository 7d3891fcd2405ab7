#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace.h"
#include "base/mem.h"
#include "service/sandbox_run.h"

static void object_set_paths(struct ws *ws, json_t *object, const struct sandbox_row *row)
{
    autofree char *upper = sandboxes_path(ws->service, row->id, "delta/data"),
                  *work = sandboxes_path(ws->service, row->id, "delta/meta"), *merged = sandboxes_host_path(ws->service, row);

    if (sandbox_row_state(row) == SANDBOX_STATE_DELETED || sandbox_row_state(row) == SANDBOX_STATE_ERROR)
        return;
    compat_set_text(object, "lowerDir", row->scope_path);
    compat_set_text(object, "upperDir", upper);
    compat_set_text(object, "workDir", work);
    if (merged)
        compat_set_text(object, "mergedDir", merged);
    if (sandbox_wants_host_mount(row))
        json_object_set_new(object, "hostMount", json_true());
}

static void object_set_reserved(json_t *object, const struct sandbox_row *row)
{
    char **paths = row->reserved_paths;
    json_t *list = json_array();

    for (; paths && *paths; paths++)
        json_array_append_new(list, compat_text(*paths, strlen(*paths)));
    json_object_set_new(object, "reservedPath", json_array_size(list) ? json_incref(json_array_get(list, 0)) : json_string(""));
    if (json_array_size(list) > 0)
        json_object_set(object, "reservedPaths", list);
    json_decref(list);
    if (row->no_lock)
        json_object_set_new(object, "noLock", json_true());
}

/* Sets a value that is stored as JSON text. Leaves out empty values unless `always`. */
static void object_set_json(json_t *object, const char *key, const char *text, bool always)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

    if (value && (always || json_array_size(value) > 0 || json_object_size(value) > 0))
        json_object_set(object, key, value);
    json_decref(value);
}

static void object_set_times(json_t *object, const struct sandbox_row *row)
{
    compat_set_time(object, "createdAt", row->created_ns);
    compat_set_time(object, "lastUsedAt", row->used_ns);
    compat_set_time(object, "updatedAt", row->updated_ns);
    if (sandbox_row_state(row) != SANDBOX_STATE_ACTIVE)
        compat_set_time(object, "stoppedAt", row->stopped_ns);
    compat_set_time(object, "approvedAt", row->approved_ns);
    if (sandbox_row_state(row) == SANDBOX_STATE_DELETED)
        compat_set_time(object, "deletedAt", row->deleted_ns);
}

static void object_set_profile(json_t *object, const struct sandbox_row *row)
{
    autofree char *profile = sandbox_profile(row);

    compat_set_text(object, "profile", profile);
}

static void object_set_trash(struct ws *ws, json_t *object, const struct sandbox_row *row)
{
    int64_t until = sandboxes_trash_until(ws->service, row);

    if (until > 0)
        compat_set_time(object, "restorableUntil", until);
}

static json_t *make_mount_health(const struct sandbox_health *health)
{
    json_t *object = json_pack("{s:b, s:b}", "healthy", health->is_healthy, "verified", 1);

    if (!health->is_healthy) {
        compat_set_text(object, "error", health->error);
        json_object_set_new(object, "hint", json_string("stop the sandbox and start it again; its changes are kept"));
    }
    return object;
}

/* The pids of background processes and terminals. */
static json_t *make_active_pids(struct ws *ws, const struct sandbox_row *row)
{
    autodone(process_info_list) struct process_info_list list = { 0 };
    struct err ignored = ERR_NONE;
    json_t *pids = json_array();

    if (sandbox_row_state(row) != SANDBOX_STATE_ACTIVE ||
        sandbox_process_list(ws->service, &ws->caller, row->id, &list, &ignored) < 0)
        return pids;
    for (size_t i = 0; i < list.count; i++)
        if (list.items[i].is_running)
            json_array_append_new(pids, json_integer(list.items[i].record.pid));
    return pids;
}

json_t *compat_object(struct ws *ws, const struct sandbox_row *row, const struct sandbox_health *health)
{
    struct err broken = ERR_NONE;
    bool is_broken = sandboxes_check_files(ws->service, row, &broken) < 0;
    json_t *object = json_pack("{s:o, s:o, s:o, s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:I, s:I}", "id", compat_uuid(row->id),
                               "scopePath", compat_text(row->scope_path, strlen(row->scope_path)), "projectRoot",
                               compat_text(row->project_root, strlen(row->project_root)), "ownerType", row->creator_type,
                               "status", sandbox_state_name(sandbox_row_state(row)), "driver", row->driver, "driverVersion",
                               AGENTFENSE_VERSION, "sizeBytes", (json_int_t) row->size_bytes, "fileCount",
                               (json_int_t) row->file_count, "activePids", make_active_pids(ws, row), "sessionCount",
                               (json_int_t) (health ? health->sessions : 0), "version", (json_int_t) row->row_version);

    object_set_reserved(object, row);
    compat_set_text(object, "owner", row->creator);
    compat_set_text(object, "errorMessage", is_broken ? broken.text : row->reason);
    compat_set_text(object, "idempotencyKey", row->idempotency_key);
    compat_set_text(object, "baseCommitHash", row->base_commit);
    object_set_profile(object, row);
    object_set_paths(ws, object, row);
    object_set_times(object, row);
    object_set_trash(ws, object, row);
    object_set_json(object, "tags", row->tags, false);
    object_set_json(object, "metadata", row->metadata, false);
    object_set_json(object, "behavior", row->behavior, true);
    if (health && sandbox_row_state(row) == SANDBOX_STATE_ACTIVE)
        json_object_set_new(object, "mountHealth", make_mount_health(health));
    return object;
}

static void object_set_limits(struct ws *ws, json_t *object, const struct sandbox_row *row)
{
    struct limit_report held;
    json_t *list = json_array();

    sandboxes_limits(ws->service, row, &held);
    for (size_t i = 0; i < held.count; i++) {
        const struct limit_in_force *limit = &held.items[i];
        json_t *one = json_pack("{s:o, s:I, s:b}", "name", compat_text(limit->name, strlen(limit->name)), "value",
                                (json_int_t) limit->value, "isDefault", limit->is_default);

        compat_set_text(one, "notEnforced", limit->not_enforced);
        json_array_append_new(list, one);
    }
    if (held.count > 0)
        json_object_set(object, "limits", list);
    json_decref(list);
}

int compat_answer_object(struct ws *ws, int status, const struct sandbox_row *row)
{
    struct sandbox_health health;
    bool is_active = sandbox_row_state(row) == SANDBOX_STATE_ACTIVE;
    char tag[32];

    if (is_active)
        sandboxes_check(ws->service, row, &health);
    snprintf(tag, sizeof(tag), "\"%" PRId64 "\"", row->row_version);
    web_add_header(ws->web, "ETag", tag);
    json_t *object = compat_object(ws, row, is_active ? &health : NULL);
    if (is_active)
        object_set_limits(ws, object, row);
    return compat_answer(ws, status, object);
}

/* For other owners' sandboxes it shows only the path that the caller asked for. */
static json_t *make_scope_conflicts(const struct ws *ws, const struct sandbox_conflicts *conflicts)
{
    static const char *const overlaps[] = { "exact", "existing_contains_new", "new_contains_existing" };
    json_t *list = json_array();

    for (size_t i = 0; i < conflicts->count; i++) {
        const struct sandbox_conflict *one = &conflicts->items[i];
        bool is_seen = caller_sees(&ws->caller, one->owner_id);
        json_t *item =
            json_pack("{s:o, s:o, s:s, s:o}", "sandboxId", is_seen ? compat_uuid(one->id) : json_string(""), "scope",
                      is_seen ? compat_text(one->path, strlen(one->path)) : compat_text(one->wanted, strlen(one->wanted)),
                      "conflictType", overlaps[one->overlap], "requested", compat_text(one->wanted, strlen(one->wanted)));

        if (is_seen) {
            compat_set_text(item, "owner", one->creator);
            json_object_set_new(item, "status", json_string(sandbox_state_name(one->state)));
        }
        json_array_append_new(list, item);
    }
    return list;
}

int compat_explain(struct ws *ws, int r, const struct err *err, const struct sandbox_conflicts *conflicts)
{
    const char *reason = err->reason ? err->reason : "";

    if (strcmp(reason, "SCOPE_CONFLICT") == 0 && conflicts) {
        compat_detail(ws, "conflicts", make_scope_conflicts(ws, conflicts));
        compat_hint(ws, "approve, reject or delete the other sandbox, reserve another path, or ask for noLock");
    } else if (strcmp(reason, "IDEMPOTENCY_KEY") == 0 && err->code == ERR_ALREADY_EXISTS) {
        compat_detail(ws, "reason", json_string("IDEMPOTENCY_KEY_REUSED"));
        compat_hint(ws, "use a new idempotencyKey for a new request");
    } else if (strcmp(reason, "VERSION_MISMATCH") == 0) {
        compat_hint(ws, "get the sandbox again and decide by its new version");
    } else if (strcmp(reason, "INVALID_STATE") == 0) {
        compat_hint(ws, "GET /api/v1/sandboxes/%s tells what it is now; a stopped one can be started",
                    ws->id[0] ? ws->shown : "{id}");
    } else if (strcmp(reason, "WOULD_STOP") == 0) {
        compat_detail(ws, "reason", json_string(reason));
        compat_hint(ws, "\"stop\": true allows it; or stop the sandbox first, or let its processes end");
    } else if (strcmp(reason, "DRIVER_FAILED") == 0 || strcmp(reason, "START_FAILED") == 0) {
        if (*reason == 'S')
            ws->status = 500;
        compat_detail(ws, "reason", json_string("DRIVER_FAILED"));
        ws->is_retryable = true;
        compat_hint(ws, "'agentfense doctor' tells what this host lacks; then try again");
    } else if (strcmp(reason, "ROOT_NOT_ALLOWED") == 0) {
        compat_hint(ws, "'agentfense token create --root DIR' makes a token that allows it");
    }
    return r;
}
