/*
 * Workspaces that come back, and what keeps them from growing for ever. One that was deleted keeps its directory for a while, and nothing but its row says that it is deleted: so
 * deleting and restoring are each one write to the database, and a kill leaves the one or the other. Removing the directory is a
 * rename first (state_dir_remove()), so what has the workspace's name is whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "review/prune.h"
#include "service/workspace_review_int.h"

#define BIT(name) WORKSPACE_STATUS_BIT(WORKSPACE_STATUS_##name)

int64_t workspaces_trash_until(const struct service *service, const struct workspace_row *row)
{
    char name[WORKSPACE_NAME_MAX];

    workspace_name(row->id, name);
    if (row->status != WORKSPACE_STATUS_DELETED || service->options.workspace_trash_ns <= 0 ||
        faccessat(service->state_dir.sandboxes_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    return row->deleted_ns + service->options.workspace_trash_ns;
}

/* ---- back ---- */

int workspace_reopen(struct still *still, struct workspace_conflicts *ret_conflicts, struct err *err)
{
    struct workspace_insertion insertion = { .max = still->service->options.workspaces_max };
    struct workspace_move move = { .id = still->row.id,
                                   .from = BIT(APPROVED) | BIT(REJECTED) | BIT(DELETED),
                                   .to = WORKSPACE_STATUS_STOPPED,
                                   .now_ns = clock_wall_ns(),
                                   .insertion = &insertion };
    autodone(workspace_row) struct workspace_row fresh = { 0 };
    int r = workspace_row_move(still->service->store, &move, err);

    if (ret_conflicts)
        *ret_conflicts = insertion.conflicts;
    else
        workspace_conflicts_done(&insertion.conflicts);
    if (r == 0)
        r = workspace_row_get(still->service->store, still->row.id, &fresh, err);
    if (r < 0)
        return r;
    workspace_row_done(&still->row);
    still->row = fresh;
    fresh = (struct workspace_row){ 0 };
    return 0;
}

int workspaces_restore(struct service *service, const struct caller *caller, const char *id, const char *actor, int64_t version,
                       struct workspace_row *ret, struct workspace_conflicts *ret_conflicts, struct err *err)
{
    unsigned from = BIT(APPROVED) | BIT(REJECTED) | BIT(DELETED), open = BIT(ACTIVE) | BIT(STOPPED);
    autodone(still) struct still still = STILL_NONE;
    int r = still_begin(service, caller, id, version, from | open, "restored", &still, err);

    if (r < 0)
        return r;
    if (!(open & WORKSPACE_STATUS_BIT(still.row.status))) {
        const char *was = workspace_status_name((enum workspace_status) still.row.status);

        r = workspace_reopen(&still, ret_conflicts, err);
        if (r == 0)
            workspaces_tell(service, caller, &still.row, "workspace_restored", actor, json_pack("{s:s}", "was", was));
    }
    return r < 0 ? r : workspace_row_get(service->store, id, ret, err);
}

/* ---- what cannot be undone any more ---- */

static void prune_one(struct service *service, const struct caller *caller, const struct workspace_row *row, bool is_dry,
                      int64_t before_ns, struct prune *ret)
{
    autodone(still) struct still still = STILL_NONE;
    autofree char *delta_path = workspaces_path(service, row->id, "delta");
    struct prune_options options = { .before_ns = before_ns, .is_dry = is_dry };
    struct err err = ERR_NONE;
    int r;

    if (!prune_has_work(delta_path, before_ns))
        return;
    r = still_begin(service, caller, row->id, 0, BIT(ACTIVE) | BIT(STOPPED) | BIT(APPROVED) | BIT(REJECTED), "pruned", &still,
                    &err);
    /* It is not worth stopping one for. */
    if (r == 0)
        r = still_try(&still, &err);
    if (r < 0 || !still_is_calm(&still))
        return;
    options.is_held = still_is_locked(&still);
    r = prune_run(delta_path, &options, ret, &err);
    if (r < 0 && r != -EBUSY)
        log_warn("old approvals of a sandbox are not forgotten", LOG_STR("sandbox_id", row->id), LOG_STR("error", err.text));
}

int workspaces_prune(struct service *service, const struct caller *caller, bool is_dry, struct prune *ret, struct err *err)
{
    struct workspace_filter filter = { .host_id = service->host_id,
                                       .account_id = caller->is_admin ? NULL : caller->owner,
                                       .statuses = BIT(ACTIVE) | BIT(STOPPED) | BIT(APPROVED) | BIT(REJECTED) };
    int64_t window_ns = service->options.workspace_undo_ns, before_ns = clock_wall_ns() - window_ns;
    autodone(workspace_rows) struct workspace_rows rows = { 0 };
    int r;

    *ret = (struct prune){ 0 };
    if (window_ns <= 0)
        return 0;
    r = workspace_row_list(service->store, &filter, INT32_MAX, 0, true, &rows, NULL, err);
    for (size_t i = 0; r == 0 && i < rows.count; i++)
        prune_one(service, caller, &rows.rows[i], is_dry, before_ns, ret);
    return r;
}

/* ---- away ---- */

struct emptying {
    struct service *service;
    const struct caller *caller;
    const struct workspace_trash_wish *wish;
    struct workspace_trash *ret;
    int64_t now_ns;
};

static int add_bytes(const struct file_entry *entry, void *cookie)
{
    /* What it takes on disk, for that is what somebody wants back. */
    *(int64_t *) cookie += (int64_t) entry->st->st_blocks * 512;
    return FILE_WALK_ON;
}

/* Somebody may restore it in this moment: its lock, then its row again. */
static int purge(struct emptying *e, const char *id, struct err *err)
{
    autodone(workspace_row) struct workspace_row row = { 0 };
    struct ward *ward = NULL;
    int r = workspace_hold(e->service, e->caller, id, &ward, &row, err);

    if (r < 0)
        return r;
    r = row.status == WORKSPACE_STATUS_DELETED ? state_dir_remove(&e->service->state_dir, ward->id, err) : -ESTALE;
    workspace_release(ward);
    fault("workspace_purged");
    return r;
}

static int look_at(const char *name, int dir_fd, void *cookie)
{
    struct emptying *e = cookie;
    autodone(workspace_row) struct workspace_row row = { 0 };
    struct err err = ERR_NONE;
    char id[UUID_TEXT_MAX];
    int64_t bytes = 0;

    if (!workspace_id_of_name(name, id) || workspaces_get(e->service, e->caller, id, &row, &err) < 0 ||
        row.status != WORKSPACE_STATUS_DELETED)
        return 0;
    if (e->wish->measures)
        file_walk(dir_fd, ".", add_bytes, &bytes, &err);
    bool goes = e->now_ns - row.deleted_ns >= e->wish->after_ns;
    err = ERR_NONE;
    if (goes && !e->wish->is_dry && purge(e, id, &err) < 0) {
        if (err.code != ERR_OK)
            log_warn("a deleted sandbox stays in the trash", LOG_STR("sandbox_id", id), LOG_STR("error", err.text));
        goes = false;
    }
    if (goes) {
        e->ret->purged++;
        e->ret->purged_bytes += bytes;
        return 0;
    }
    e->ret->kept++;
    e->ret->kept_bytes += bytes;
    return 0;
}

int workspaces_empty_trash(struct service *service, const struct caller *caller, const struct workspace_trash_wish *wish,
                           struct workspace_trash *ret, struct err *err)
{
    struct emptying e = { service, caller, wish, ret, clock_wall_ns() };

    *ret = (struct workspace_trash){ 0 };
    return state_dir_each(&service->state_dir, look_at, &e, err);
}
