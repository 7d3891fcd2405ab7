/* The end of a workspace: deleted, its files gone, now or when somebody looks for what was left. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "review/approve.h"
#include "service/janitor.h"
#include "service/life.h"
#include "service/workspace_review_int.h"

#define BIT(name) SANDBOX_STATE_BIT(SANDBOX_STATE_##name)

/* Its processes end first, then what an approval that failed could not take out of the project again goes, which is known to none but
 * the delta; then it is deleted as far as anybody can see. Its files go now or later (workspace_trash.c): what is left of those when the
 * server is killed is removed by the next. */
int workspace_remove(struct service *service, struct ward *ward, struct sandbox_row *row, int64_t version, struct err *err)
{
    bool is_made = sandbox_row_state(row) != SANDBOX_STATE_CREATING && sandbox_row_state(row) != SANDBOX_STATE_ERROR;
    autofree char *delta_path = workspaces_path(service, row->id, "delta");
    struct err left = ERR_NONE;
    int r = workspace_check_version(row, version, err);

    if (r < 0)
        return r;
    life_end(service, ward);
    workspace_end_stray(service, ward, row);
    if (is_made)
        r = approve_recover_before_delete(delta_path, err);
    if (r < 0 && sandbox_row_state(row) == SANDBOX_STATE_ACTIVE)
        workspace_step(service, row, BIT(ACTIVE), 0, SANDBOX_STATE_STOPPED, "it could not be deleted", &left);
    if (r == 0)
        r = workspace_step(service, row, SANDBOX_STATE_ANY, 0, SANDBOX_STATE_DELETED, NULL, err);
    if (r < 0)
        return r;
    fault("workspace_deleted");
    workspaces_totals(service)->deleted++;
    if ((!is_made || service->options.workspace_trash_ns <= 0) && workspace_purge(service, ward, row->id, &left) < 0) {
        log_warn("files of a deleted sandbox could not be removed; that is tried again", LOG_STR("sandbox_id", row->id),
                 LOG_STR("error", left.text));
        janitor_doubt(service);
    }
    return 0;
}

int workspace_purge(struct service *service, struct ward *ward, const char *id, struct err *err)
{
    struct err left = ERR_NONE;
    int r = state_dir_remove(&service->state_dir, ward->id, &left);

    if (r < 0 && left.code == ERR_NOT_FOUND)
        return 0;
    if (r < 0) {
        if (err)
            *err = left;
        return err_wrap(err, r, "sandbox %s is deleted, but its files are still there; purge it again", id);
    }
    return 1;
}

/* ---- asked for ---- */

int workspaces_delete(struct service *service, const struct caller *caller, const char *id, int64_t version, bool purges,
                      struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct ward *ward = NULL;
    int r = workspace_hold(service, caller, id, &ward, &row, err);

    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return r;
    if (sandbox_row_state(&row) != SANDBOX_STATE_DELETED) {
        r = workspace_remove(service, ward, &row, version, err);
        if (r == 0) {
            r = purges ? workspace_purge(service, ward, row.id, err) : 0;
            workspaces_tell(service, caller, &row, "workspace_deleted", NULL,
                            purges && r >= 0 ? json_pack("{s:b}", "purged", 1) : NULL);
        }
    } else if (purges) {
        r = workspace_purge(service, ward, row.id, err);
        if (r > 0)
            workspaces_tell(service, caller, &row, "workspace_purged", NULL, NULL);
    }
    workspace_release(ward);
    return r < 0 ? r : 0;
}

/* ---- what was left ---- */

/* Directories whose workspace is gone. One without a row is not ours: a sandbox of `run`, or the database is an older copy. */
static int sweep_one(const char *name, int dir_fd, void *cookie)
{
    struct service *service = cookie;
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct err err = ERR_NONE;

    if (!sandbox_id_is_valid(name) || sandbox_row_get(service->store, name, &row, &err) < 0 ||
        !sandbox_row_is_over_directory(&row))
        return 0;
    bool is_trash = sandbox_row_state(&row) == SANDBOX_STATE_DELETED && service->options.workspace_trash_ns > 0;
    bool is_over = sandbox_row_state(&row) == SANDBOX_STATE_DELETED || sandbox_row_state(&row) == SANDBOX_STATE_ERROR;
    /* The janitor knows when. */
    if (!is_over || is_trash || sandbox_dir_is_running(dir_fd))
        return 0;
    err = ERR_NONE;
    if (state_dir_remove(&service->state_dir, name, &err) < 0) {
        log_warn("files of a deleted sandbox could not be removed", LOG_STR("sandbox_id", name), LOG_STR("error", err.text));
        if (err_is_transient(&err) || err.code == ERR_FAILED_PRECONDITION)
            janitor_doubt(service);
    }
    return 0;
}

void workspaces_sweep(struct service *service)
{
    struct err err = ERR_NONE;

    if (state_dir_each(&service->state_dir, sweep_one, service, &err) < 0)
        log_warn("files of deleted sandboxes are not looked for", LOG_STR("error", err.text));
}
