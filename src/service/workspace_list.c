#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "fence/copy_delta.h"
#include "sandbox/host_mount.h"
#include "service/events.h"
#include "service/workspace_int.h"
#include "wire/ctl_client.h"

#define ASK_MS 2000
#define MEASURE_PAUSE 20 /* times as long as measuring took */

struct workspace_totals *workspaces_totals(struct service *service)
{
    return &service->workspace_totals;
}

int workspaces_get(struct service *service, const struct caller *caller, const char *id, struct sandbox_row *ret,
                   struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    int r = sandbox_row_get(service->store, id, &row, err);

    if (r == 0 && !caller_sees(caller, row.owner_id))
        r = err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no sandbox '%s'", id);
    if (r < 0)
        return r == -ENOENT ? err_set_reason(err, r, "SANDBOX_NOT_FOUND") : r;
    *ret = row;
    row = (struct sandbox_row){ 0 };
    return 0;
}

int workspaces_list(struct service *service, const struct caller *caller, const struct sandbox_filter *filter, size_t limit,
                    size_t offset, struct sandbox_rows *ret, int64_t *ret_total, struct err *err)
{
    struct sandbox_filter own = *filter;

    own.owner_id = caller->is_admin ? NULL : caller->owner;
    own.base = SANDBOX_BASE_DIRECTORY;
    return sandbox_row_list_window(service->store, &own, limit, offset, ret, ret_total, err);
}

char *workspaces_host_path(const struct service *service, const struct sandbox_row *row)
{
    char found[SANDBOX_NAME_MAX];
    autofd int dir_fd = -1;

    if (sandbox_row_state(row) != SANDBOX_STATE_ACTIVE)
        return NULL;
    if (strcmp(row->driver, "copy") == 0)
        return workspaces_path(service, row->id, COPY_DELTA_WORKSPACE);
    if (!workspace_wants_host_mount(row) ||
        state_dir_find(&service->state_dir, row->id, found, &dir_fd, &(struct err){ 0 }) < 0 || !host_mount_is_shown(dir_fd))
        return NULL;
    return workspaces_path(service, row->id, HOST_MOUNT_DIR);
}

void workspace_ask_supervisor(struct service *service, const char *id, struct workspace_health *ret)
{
    struct ctl_request request = { .type = CTL_REQUEST_STATUS, .tag = 1 };
    autofree char *payload = malloc(FRAME_PAYLOAD_MAX);
    struct err err = ERR_NONE;
    struct ctl_reply reply = { 0 };
    autofd int fd = -1;

    *ret = (struct workspace_health){ 0 };
    autoptr(ward) ward = ward_find_running(&service->wards, id);
    if (!ward || !payload) {
        snprintf(ret->error, sizeof(ret->error), "its supervisor does not run");
        return;
    }
    int r = ward_take_fd(ward, &fd, &err);
    if (r == 0)
        r = ctl_client_call(fd, &request, -1, &reply, payload, ASK_MS, &err);
    if (r < 0 || reply.type != CTL_REPLY_STATUS) {
        snprintf(ret->error, sizeof(ret->error), "its supervisor does not answer: %s", err.text);
        return;
    }
    ward_give_fd(ward, steal_fd(&fd));
    *ret = (struct workspace_health){ .is_healthy = true,
                                      .execs = (int64_t) reply.status.execs,
                                      .sessions = (int64_t) reply.status.sessions,
                                      .requests = reply.status.fence_requests,
                                      .used_bytes = reply.status.used_bytes,
                                      .used_inodes = reply.status.used_inodes };
}

int workspaces_check_files(struct service *service, const struct sandbox_row *row, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row now = { 0 };
    struct err ignored = ERR_NONE;
    int r;

    if (sandbox_row_state(row) != SANDBOX_STATE_STOPPED || strcmp(row->host_id, service->host_id) != 0)
        return 0;
    r = state_dir_check(&service->state_dir, row->id, err);
    /* Or it was removed since the row was read. */
    if (r < 0 &&
        (sandbox_row_get(service->store, row->id, &now, &ignored) < 0 || sandbox_row_state(&now) != SANDBOX_STATE_STOPPED))
        r = 0;
    return r;
}

void workspaces_check(struct service *service, const struct sandbox_row *row, struct workspace_health *ret)
{
    autofree char *path = NULL;

    workspace_ask_supervisor(service, row->id, ret);
    if (!ret->is_healthy || !workspace_wants_host_mount(row) || (path = workspaces_host_path(service, row)))
        return;
    ret->is_healthy = false;
    snprintf(ret->error, sizeof(ret->error), "its files are not mounted on the host, as they should be (hostMount)");
}

int workspaces_find_ward(struct service *service, const struct caller *caller, const char *id, struct ward **ret,
                         struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    int r = workspaces_get(service, caller, id, &row, err);

    if (r < 0)
        return r;
    struct ward *ward = sandbox_row_state(&row) == SANDBOX_STATE_ACTIVE ? ward_find_running(&service->wards, id) : NULL;
    if (!ward)
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, -ENOTCONN, "sandbox %s is %s, and not active", id,
                                      sandbox_row_state(&row) == SANDBOX_STATE_ACTIVE
                                          ? "not mounted"
                                          : sandbox_state_name(sandbox_row_state(&row))),
                              "INVALID_STATE");
    workspaces_touch(service, id);
    *ret = ward;
    return 0;
}

void workspaces_touch(struct service *service, const char *id)
{
    struct err err = ERR_NONE;

    if (sandbox_row_touch(service->store, id, clock_wall_ns(), &err) < 0)
        log_warn("the use of a sandbox could not be noted", LOG_STR("sandbox_id", id), LOG_STR("error", err.text));
}

void workspaces_limits(struct service *service, const struct sandbox_row *row, struct limit_report *ret)
{

    limit_report_find(&service->state_dir, row->id, ret);
}

/* ---- how large ---- */

struct size {
    int64_t bytes, files;
};

static int add_size(const struct file_entry *entry, void *cookie)
{
    struct size *size = cookie;

    if (S_ISDIR(entry->st->st_mode))
        return FILE_WALK_ON;
    size->files++;
    size->bytes += S_ISREG(entry->st->st_mode) || S_ISLNK(entry->st->st_mode) ? entry->st->st_size : 0;
    return FILE_WALK_ON;
}

int workspaces_measure(struct service *service, struct sandbox_row *row, struct err *err)
{
    char found[SANDBOX_NAME_MAX];
    struct size size = { 0 };
    autofd int dir_fd = -1;
    int r;

    r = state_dir_find(&service->state_dir, row->id, found, &dir_fd, err);
    if (r == 0)
        r = file_walk(dir_fd, "delta/data", add_size, &size, err);
    if (r == -ENOENT)
        r = 0;
    if (r < 0 || (size.bytes == row->size_bytes && size.files == row->file_count))
        return r;
    row->size_bytes = size.bytes;
    row->file_count = size.files;
    return sandbox_row_measure(service->store, row->id, size.bytes, size.files, err);
}

/* True: it is to be measured now. */
static bool must_measure(struct ward *ward, const struct workspace_health *health, bool is_fence)
{
    struct ward_measured *last = &ward->measured;
    bool is_new;

    pthread_mutex_lock(&ward->lock);
    is_new = !is_fence || last->again_ns == 0 || last->requests != health->requests || last->bytes != health->used_bytes ||
             last->inodes != health->used_inodes;
    is_new = is_new && clock_now_ns() >= last->again_ns;
    pthread_mutex_unlock(&ward->lock);
    return is_new;
}

static void note_measured(struct ward *ward, const struct workspace_health *health, int64_t took_ns)
{
    pthread_mutex_lock(&ward->lock);
    ward->measured = (struct ward_measured){ .requests = health->requests,
                                             .bytes = health->used_bytes,
                                             .inodes = health->used_inodes,
                                             .again_ns = clock_now_ns() + MEASURE_PAUSE * took_ns };
    pthread_mutex_unlock(&ward->lock);
}

void workspaces_remeasure(struct service *service, struct sandbox_row *row, const struct workspace_health *health)
{
    bool is_fence = strcmp(row->driver, WORKSPACE_DRIVER) == 0;
    int64_t began_ns = clock_now_ns();

    if (sandbox_row_state(row) != SANDBOX_STATE_ACTIVE || strcmp(row->driver, "copy") == 0 ||
        (is_fence && health->requests == 0))
        return;
    autoptr(ward) ward = ward_find_running(&service->wards, row->id);
    if (!ward || !must_measure(ward, health, is_fence))
        return;
    workspaces_measure(service, row, &(struct err){ 0 });
    note_measured(ward, health, clock_now_ns() - began_ns);
}

/* ---- what is told ---- */

void sandbox_tell(struct service *service, const struct caller *caller, const struct sandbox_row *row, const char *type,
                  const char *claimed, json_t *details)
{
    bool is_automatic = json_is_true(json_object_get(details, "automatic"));
    bool is_ours = is_automatic || (!*caller->owner && !caller->has_uid);
    autofree char *who = is_automatic ? xdup(claimed) : caller_name(caller);
    json_t *payload = json_pack("{s:s, s:s, s:s}", "actor", who, "actorType", is_ours ? "system" : "user", "sandboxState",
                                sandbox_state_name(sandbox_row_state(row)));

    if (!payload)
        payload = json_object();
    if (claimed && *claimed && !is_ours)
        json_object_set_new(payload, "claimedActor", json_string(claimed));
    json_object_update_missing(payload, details);
    json_decref(details);
    events_add(
        service,
        &(struct event){
            .type = type, .sandbox_id = row->id, .codebase_id = row->codebase_id, .owner = row->owner_id, .payload = payload });
}

/* ---- what there is ---- */

const char *workspaces_project_root(const struct service *service)
{
    return service->options.project_root;
}

char *workspaces_path(const struct service *service, const char *id, const char *file)
{

    return state_dir_path(&service->state_dir, id, file);
}

int workspaces_count(struct service *service, const struct caller *caller, struct sandbox_count ret[SANDBOX_STATE_COUNT],
                     struct err *err)
{
    struct sandbox_filter filter = { .owner_id = caller->is_admin ? NULL : caller->owner, .base = SANDBOX_BASE_DIRECTORY };

    return sandbox_row_count_states(service->store, &filter, ret, err);
}

static void add_execs(struct ward *ward, void *cookie)
{
    struct {
        struct service *service;
        int64_t execs;
    } *sum = cookie;
    struct workspace_health health;

    if (*ward->codebase_id)
        return;
    workspace_ask_supervisor(sum->service, ward->id, &health);
    sum->execs += health.execs;
}

int64_t workspaces_processes(struct service *service)
{
    struct {
        struct service *service;
        int64_t execs;
    } sum = { .service = service };

    wards_each_running(&service->wards, add_execs, &sum);
    return sum.execs;
}
