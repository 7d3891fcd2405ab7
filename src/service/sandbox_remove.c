/* Deletes sandboxes and their files, at once or in the janitor's rounds. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "review/approve.h"
#include "service/janitor.h"
#include "service/life.h"
#include "service/sandbox_care.h"
#include "service/sandbox_index.h"
#include "service/service_int.h"
#include "service/sync.h"

#define BIT(name) SANDBOX_STATUS_BIT(SANDBOX_STATUS_##name)

static bool has_changes(struct service *service, const char *id)
{
    char name[SANDBOX_NAME_MAX];
    struct err ignored = ERR_NONE;
    autofd int dir_fd = -1;

    return state_dir_find(&service->state_dir, id, name, &dir_fd, &ignored) == 0 && sandbox_dir_has_changes(dir_fd);
}

/* Keeps everything of a sandbox over a directory for a while. One over a codebase has usually synced its changes. */
static bool goes_to_trash(struct service *service, const struct sandbox_row *row)
{
    return service->options.workspace_trash_ns > 0 && (sandbox_row_is_over_directory(row) || has_changes(service, row->id));
}

/* The row of one over a directory stays: a user may ask where a file in their project came from. */
static int forget(struct service *service, struct sandbox_row *row, struct err *err)
{
    struct sandbox_move move = { .id = row->id, .to = SANDBOX_STATUS_DELETED, .forgets_name = true, .now_ns = clock_wall_ns() };

    if (!sandbox_row_is_over_directory(row))
        return sandbox_row_delete(service->store, row->id, err);
    return row->status == SANDBOX_STATUS_DELETED ? 0 : sandbox_row_move(service->store, &move, row, err);
}

int life_purge(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, struct err *err)
{
    struct err left = ERR_NONE;
    int r = state_dir_remove(&service->state_dir, conn->id, &left);
    bool was_there = r == 0;

    if (r < 0 && left.code != ERR_NOT_FOUND) {
        *err = left;
        janitor_doubt(service);
        return err_wrap(err, r, "sandbox %s is deleted, but its files are still there; purge it again", row->id);
    }
    fault("sandbox_purged");
    r = forget(service, row, err);
    return r < 0 ? r : was_there;
}

/* Order: first end its processes; then clean up the project after a failed approval, which only the delta knows about; then mark it as
 * deleted. If the server is killed, the next one removes the rest. */
int life_delete(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, bool purges, struct err *err)
{
    bool is_made = sandbox_row_state(row) != SANDBOX_STATE_ERROR && row->status != SANDBOX_STATUS_CREATING &&
                   row->status != SANDBOX_STATUS_DELETING;
    autofree char *delta_path = sandboxes_path(service, row->id, "delta");
    struct err ignored = ERR_NONE;
    autofd int lock = -1;
    int r = 0;

    if (row->status == SANDBOX_STATUS_RUNNING) {
        sync_now(service, conn, &ignored);
        r = life_move(service, row, BIT(RUNNING), SANDBOX_STATUS_STOPPING, NULL, err);
    }
    if (r < 0)
        return r;
    life_end(service, conn);
    r = life_lock_dir(service, row->id, &lock, err);
    if (r == 0 && is_made)
        r = approve_recover_before_delete(delta_path, err);
    ignored = ERR_NONE;
    if (r < 0 && row->status == SANDBOX_STATUS_STOPPING)
        life_move(service, row, BIT(STOPPING), SANDBOX_STATUS_STOPPED, "it could not be deleted", &ignored);
    if (r < 0)
        return r;
    if (is_made && !purges && goes_to_trash(service, row))
        r = sandbox_index_note(service, row->id, row->decision, true, err);
    if (r == 0 && is_made && !purges && goes_to_trash(service, row))
        r = life_move(service, row, 0, SANDBOX_STATUS_DELETED, NULL, err);
    else if (r == 0 && row->status != SANDBOX_STATUS_DELETING)
        r = life_move(service, row, 0, SANDBOX_STATUS_DELETING, NULL, err);
    if (r < 0)
        return r;
    fault("sandbox_deleted");
    sandboxes_totals(service)->deleted++;
    if (row->status == SANDBOX_STATUS_DELETED)
        return 0;
    if (lock >= 0)
        close(steal_fd(&lock));
    r = life_purge(service, conn, row, err);
    return r < 0 ? r : 0;
}

/* ---- requests ---- */

/* A client that destroys a sandbox does not mean to lose changes that the codebase has no space for right now. */
static int check_room(struct service *service, struct sandbox_conn *conn, const struct sandbox_row *row, struct err *err)
{
    struct err full = ERR_NONE;

    if (row->status != SANDBOX_STATUS_RUNNING || sync_now(service, conn, &full) >= 0 || full.code != ERR_RESOURCE_EXHAUSTED)
        return 0;
    return err_set_reason(err,
                          err_set(err, full.code, -ENOSPC,
                                  "failed to destroy sandbox: its changes do not fit into the codebase, and 'force' gives them "
                                  "up: %s",
                                  full.text),
                          "CHANGES_NOT_SYNCED");
}

static int purge_deleted(struct service *service, const struct caller *caller, struct sandbox_conn *conn,
                         struct sandbox_row *row, struct err *err)
{
    int r = life_purge(service, conn, row, err);

    if (r > 0)
        sandbox_tell(service, caller, row, "sandbox_purged", NULL, NULL);
    return r < 0 ? r : 0;
}

int sandboxes_delete(struct service *service, const struct caller *caller, const char *id,
                     const struct sandbox_deletion *deletion, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct sandbox_conn *conn = NULL;
    int r = life_hold(service, caller, id, &conn, &row, err);

    if (r < 0)
        return r;
    if (sandbox_row_state(&row) == SANDBOX_STATE_DELETED) {
        bool is_there = row.status == SANDBOX_STATUS_DELETING && !deletion->may_be_so;

        if (deletion->purges || is_there)
            r = purge_deleted(service, caller, conn, &row, err);
        else if (!deletion->may_be_so)
            r = refuse_sandbox(err);
        life_release(conn);
        return r;
    }
    r = life_check_version(&row, deletion->version, err);
    if (r == 0 && !deletion->is_forced)
        r = check_room(service, conn, &row, err);
    if (r == 0) {
        bool purges = deletion->purges || deletion->is_forced;

        r = life_delete(service, conn, &row, purges, err);
        if (r == 0 || sandbox_row_state(&row) == SANDBOX_STATE_DELETED)
            sandbox_tell(service, caller, &row, "sandbox_destroyed", NULL,
                         deletion->purges && r == 0 ? json_pack("{s:b}", "purged", 1) : NULL);
    }
    /* Its files are still there, and the janitor will remove them. The deletion has succeeded all the same, unless it was to purge them. */
    if (r < 0 && !deletion->purges && sandbox_row_state(&row) == SANDBOX_STATE_DELETED)
        r = 0;
    life_release(conn);
    return r;
}

/* ---- leftovers ---- */

/* Removes the directory of a sandbox whose creation failed. Leaves a directory without a row alone: it is a sandbox of `run`, or the
 * database is an older copy. */
static int sweep_one(const char *name, int dir_fd, void *cookie)
{
    struct service *service = cookie;
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct err err = ERR_NONE;

    if (!sandbox_id_is_valid(name) || sandbox_row_get(service->store, name, &row, &err) < 0 ||
        sandbox_row_state(&row) != SANDBOX_STATE_ERROR || sandbox_dir_is_running(dir_fd))
        return 0;
    err = ERR_NONE;
    if (state_dir_remove(&service->state_dir, name, &err) < 0) {
        log_warn("files of a sandbox that could not be made are still there", LOG_STR("sandbox_id", name),
                 LOG_STR("error", err.text));
        if (err_is_transient(&err) || err.code == ERR_FAILED_PRECONDITION)
            janitor_doubt(service);
    }
    return 0;
}

void life_sweep(struct service *service)
{
    struct err err = ERR_NONE;

    if (state_dir_each(&service->state_dir, sweep_one, service, &err) < 0)
        log_warn("files of deleted sandboxes are not looked for", LOG_STR("error", err.text));
}
