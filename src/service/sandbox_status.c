#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/copy_delta.h"
#include "sandbox/host_mount.h"
#include "service/events.h"
#include "service/sandbox_index.h"
#include "service/sandbox_tend.h"
#include "wire/ctl_client.h"

#define ASK_MS 2000
#define MEASURE_PAUSE 20 /* times the duration of measuring */

struct sandbox_totals *sandboxes_totals(struct service *service)
{
    return &service->sandbox_totals;
}

int sandboxes_list_rows(struct service *service, const struct caller *caller, const struct sandbox_filter *filter, size_t limit,
                        size_t offset, struct sandbox_rows *ret, int64_t *ret_total, struct err *err)
{
    struct sandbox_filter own = *filter;

    own.owner_id = caller->is_admin ? NULL : caller->owner;
    own.base = SANDBOX_BASE_DIRECTORY;
    sandbox_index_refresh(service);
    return sandbox_row_list_window(service->store, &own, limit, offset, ret, ret_total, err);
}

char *sandboxes_host_path(const struct service *service, const struct sandbox_row *row)
{
    char found[SANDBOX_NAME_MAX];
    autofd int dir_fd = -1;

    if (sandbox_row_state(row) != SANDBOX_STATE_ACTIVE)
        return NULL;
    if (strcmp(row->driver, "copy") == 0)
        return sandboxes_path(service, row->id, COPY_DELTA_WORKSPACE);
    if (!sandbox_wants_host_mount(row) ||
        state_dir_find(&service->state_dir, row->id, found, &dir_fd, &(struct err){ 0 }) < 0 || !host_mount_is_shown(dir_fd))
        return NULL;
    return sandboxes_path(service, row->id, HOST_MOUNT_DIR);
}

void sandbox_ask_supervisor(struct service *service, const char *id, struct sandbox_health *ret)
{
    struct ctl_request request = { .type = CTL_REQUEST_STATUS, .tag = 1 };
    autofree char *payload = malloc(FRAME_PAYLOAD_MAX);
    struct err err = ERR_NONE;
    struct ctl_reply reply = { 0 };
    autofd int fd = -1;

    *ret = (struct sandbox_health){ 0 };
    autoptr(sandbox_conn) conn = sandbox_conn_find_running(&service->conns, id);
    if (!conn || !payload) {
        snprintf(ret->error, sizeof(ret->error), "its supervisor does not run");
        return;
    }
    int r = sandbox_conn_take_fd(conn, &fd, &err);
    if (r == 0)
        r = ctl_client_call(fd, &request, -1, &reply, payload, ASK_MS, &err);
    if (r < 0 || reply.type != CTL_REPLY_STATUS) {
        snprintf(ret->error, sizeof(ret->error), "its supervisor does not answer: %s", err.text);
        return;
    }
    sandbox_conn_give_fd(conn, steal_fd(&fd));
    *ret = (struct sandbox_health){ .is_healthy = true,
                                    .execs = (int64_t) reply.status.execs,
                                    .sessions = (int64_t) reply.status.sessions,
                                    .requests = reply.status.fence_requests,
                                    .used_bytes = reply.status.used_bytes,
                                    .used_inodes = reply.status.used_inodes };
}

int sandboxes_check_files(struct service *service, const struct sandbox_row *row, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row now = { 0 };
    struct err ignored = ERR_NONE;
    int r;

    if (sandbox_row_state(row) != SANDBOX_STATE_STOPPED || strcmp(row->host_id, service->host_id) != 0)
        return 0;
    r = sandbox_index_check(service, row->id, err);
    /* It may also have been removed since the row was read. */
    if (r < 0 &&
        (sandbox_row_get(service->store, row->id, &now, &ignored) < 0 || sandbox_row_state(&now) != SANDBOX_STATE_STOPPED))
        r = 0;
    return r;
}

void sandboxes_check(struct service *service, const struct sandbox_row *row, struct sandbox_health *ret)
{
    autofree char *path = NULL;

    sandbox_ask_supervisor(service, row->id, ret);
    if (!ret->is_healthy || !sandbox_wants_host_mount(row) || (path = sandboxes_host_path(service, row)))
        return;
    ret->is_healthy = false;
    snprintf(ret->error, sizeof(ret->error), "its files are not mounted on the host, as they should be (hostMount)");
}

int sandboxes_find_conn(struct service *service, const struct caller *caller, const char *id, struct sandbox_conn **ret,
                        struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct err unseen = ERR_NONE;
    int r = service_find_conn(service, caller, id, ret, err);

    if (r != -ENOTCONN || service_find_sandbox(service, caller, id, &row, &unseen) < 0 || !sandbox_row_is_over_directory(&row))
        return r;
    return err_set_reason(
        err,
        err_set(err, ERR_FAILED_PRECONDITION, r, "sandbox %s is %s, and not active", row.id,
                sandbox_row_state(&row) == SANDBOX_STATE_ACTIVE ? "not mounted" : sandbox_state_name(sandbox_row_state(&row))),
        "INVALID_STATE");
}

int sandboxes_open_dir(struct service *service, const struct caller *caller, const char *id, int *ret_fd, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    int r = service_find_sandbox(service, caller, id, &row, err);

    if (r < 0)
        return r;
    r = path_open_beneath(service->state_dir.sandboxes_fd, row.id, O_RDONLY | O_DIRECTORY, 0);
    if (r < 0)
        return err_errno(err, r, "opening the directory of sandbox %s", id);
    *ret_fd = r;
    return 0;
}

void sandboxes_touch(struct service *service, const char *id)
{
    struct err err = ERR_NONE;

    if (sandbox_row_touch(service->store, id, clock_wall_ns(), &err) < 0)
        log_warn("the use of a sandbox could not be noted", LOG_STR("sandbox_id", id), LOG_STR("error", err.text));
}

void sandboxes_limits(struct service *service, const struct sandbox_row *row, struct limit_report *ret)
{

    limit_report_find(&service->state_dir, row->id, ret);
}

/* ---- size ---- */

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

int sandboxes_measure(struct service *service, struct sandbox_row *row, struct err *err)
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

/* Returns true if it must be measured now. */
static bool must_measure(struct sandbox_conn *conn, const struct sandbox_health *health, bool is_fence)
{
    struct sandbox_conn_measured *last = &conn->measured;
    bool is_new;

    pthread_mutex_lock(&conn->lock);
    is_new = !is_fence || last->again_ns == 0 || last->requests != health->requests || last->bytes != health->used_bytes ||
             last->inodes != health->used_inodes;
    is_new = is_new && clock_now_ns() >= last->again_ns;
    pthread_mutex_unlock(&conn->lock);
    return is_new;
}

static void note_measured(struct sandbox_conn *conn, const struct sandbox_health *health, int64_t took_ns)
{
    pthread_mutex_lock(&conn->lock);
    conn->measured = (struct sandbox_conn_measured){ .requests = health->requests,
                                                     .bytes = health->used_bytes,
                                                     .inodes = health->used_inodes,
                                                     .again_ns = clock_now_ns() + MEASURE_PAUSE * took_ns };
    pthread_mutex_unlock(&conn->lock);
}

void sandboxes_remeasure(struct service *service, struct sandbox_row *row, const struct sandbox_health *health)
{
    bool is_fence = strcmp(row->driver, SANDBOX_DRIVER) == 0;
    int64_t began_ns = clock_now_ns();

    if (sandbox_row_state(row) != SANDBOX_STATE_ACTIVE || strcmp(row->driver, "copy") == 0 ||
        (is_fence && health->requests == 0))
        return;
    autoptr(sandbox_conn) conn = sandbox_conn_find_running(&service->conns, row->id);
    if (!conn || !must_measure(conn, health, is_fence))
        return;
    sandboxes_measure(service, row, &(struct err){ 0 });
    note_measured(conn, health, clock_now_ns() - began_ns);
}

/* ---- audit ---- */

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

/* ---- queries ---- */

const char *sandboxes_project_root(const struct service *service)
{
    return service->options.project_root;
}

char *sandboxes_path(const struct service *service, const char *id, const char *file)
{

    return state_dir_path(&service->state_dir, id, file);
}

int sandboxes_count(struct service *service, const struct caller *caller, enum sandbox_base base,
                    struct sandbox_count ret[SANDBOX_STATE_COUNT], struct err *err)
{
    struct sandbox_filter filter = { .owner_id = caller->is_admin ? NULL : caller->owner, .base = base };

    sandbox_index_refresh(service);
    return sandbox_row_count_states(service->store, &filter, ret, err);
}

static void add_execs(struct sandbox_conn *conn, void *cookie)
{
    struct {
        struct service *service;
        int64_t execs;
    } *sum = cookie;
    struct sandbox_health health;

    if (*conn->codebase_id)
        return;
    sandbox_ask_supervisor(sum->service, conn->id, &health);
    sum->execs += health.execs;
}

int64_t sandboxes_processes(struct service *service)
{
    struct {
        struct service *service;
        int64_t execs;
    } sum = { .service = service };

    sandbox_conns_each_running(&service->conns, add_execs, &sum);
    return sum.execs;
}
