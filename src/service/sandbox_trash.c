/*
 * Restores sandboxes, and keeps the trash and the undo data from growing for ever. A sandbox in the trash still has its directory, with a
 * note that it is deleted (sandbox_dir.h). The note is written before the row moves to the trash, and removed after the row has moved back:
 * if the server is killed in between, the next look at the directory puts the sandbox into the trash.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "review/prune.h"
#include "service/reviews_int.h"
#include "service/sandbox_index.h"

#define BIT(name) SANDBOX_STATE_BIT(SANDBOX_STATE_##name)

int64_t sandboxes_trash_until(const struct service *service, const struct sandbox_row *row)
{

    if (row->status != SANDBOX_STATUS_DELETED || service->options.workspace_trash_ns <= 0 ||
        faccessat(service->state_dir.sandboxes_fd, row->id, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    return row->deleted_ns + service->options.workspace_trash_ns;
}

/* ---- restore ---- */

int review_reopen(struct review_lock *review_lock, struct sandbox_conflicts *ret_conflicts, struct err *err)
{
    struct sandbox_admission room = { .max_over_directories = review_lock->service->options.workspaces_max };
    struct sandbox_move move = { .id = review_lock->row.id,
                                 .from_states = BIT(APPROVED) | BIT(REJECTED) | BIT(DELETED),
                                 .to = SANDBOX_STATUS_STOPPED,
                                 .decides = true,
                                 .decision = SANDBOX_DECISION_OPEN,
                                 .now_ns = clock_wall_ns(),
                                 .room = &room };
    int r = sandbox_row_move(review_lock->service->store, &move, &review_lock->row, err);

    /* Last, because the row's move may be refused: others may have reserved the paths. */
    if (r == 0)
        r = sandbox_index_note(review_lock->service, review_lock->row.id, SANDBOX_DECISION_OPEN, false, err);

    if (ret_conflicts)
        *ret_conflicts = room.conflicts;
    else
        sandbox_conflicts_done(&room.conflicts);
    return r;
}

int sandboxes_restore(struct service *service, const struct caller *caller, const char *id, const char *actor, int64_t version,
                      struct sandbox_row *ret, struct sandbox_conflicts *ret_conflicts, struct err *err)
{
    unsigned from = BIT(APPROVED) | BIT(REJECTED) | BIT(DELETED), open = BIT(ACTIVE) | BIT(STOPPED);
    autodone(review_lock) struct review_lock review_lock = REVIEW_LOCK_NONE;
    int r = review_lock_begin(service, caller, id, version, from | open, "restored", &review_lock, err);

    if (r < 0)
        return r;
    if (!(open & SANDBOX_STATE_BIT(sandbox_row_state(&review_lock.row)))) {
        const char *was = sandbox_state_name(sandbox_row_state(&review_lock.row));

        r = review_reopen(&review_lock, ret_conflicts, err);
        if (r == 0)
            sandbox_tell(service, caller, &review_lock.row, "sandbox_restored", actor, json_pack("{s:s}", "was", was));
    }
    return r < 0 ? r : sandbox_row_get(service->store, id, ret, err);
}

/* ---- prune ---- */

struct pruning {
    const struct caller *caller;
    struct prune_options options;
    struct prune *ret;
};

static void prune_one(struct service *service, struct sandbox_row *row, void *cookie)
{
    struct pruning *pruning = cookie;
    struct prune_options options = pruning->options;
    autodone(review_lock) struct review_lock review_lock = REVIEW_LOCK_NONE;
    autofree char *delta_path = sandboxes_path(service, row->id, "delta");
    struct err err = ERR_NONE;
    int r;

    if (!prune_has_work(delta_path, options.before_ns))
        return;
    r = review_lock_begin(service, pruning->caller, row->id, 0, BIT(ACTIVE) | BIT(STOPPED) | BIT(APPROVED) | BIT(REJECTED),
                          "pruned", &review_lock, &err);
    /* Do not stop a sandbox for this. */
    if (r == 0)
        r = review_lock_try(&review_lock, &err);
    if (r < 0 || !review_lock_is_calm(&review_lock))
        return;
    options.is_held = review_lock_is_locked(&review_lock);
    r = prune_run(delta_path, &options, pruning->ret, &err);
    if (r < 0 && r != -EBUSY)
        log_warn("old approvals of a sandbox are not forgotten", LOG_STR("sandbox_id", row->id), LOG_STR("error", err.text));
}

int sandboxes_prune(struct service *service, const struct caller *caller, bool is_dry, struct prune *ret, struct err *err)
{
    int64_t window_ns = service->options.workspace_undo_ns;
    struct sandbox_filter filter = { .host_id = service->host_id,
                                     .base = SANDBOX_BASE_DIRECTORY,
                                     .owner_id = caller->is_admin ? NULL : caller->owner,
                                     .states = BIT(ACTIVE) | BIT(STOPPED) | BIT(APPROVED) | BIT(REJECTED) };
    struct pruning pruning = { .caller = caller,
                               .options = { .before_ns = clock_wall_ns() - window_ns, .is_dry = is_dry },
                               .ret = ret };

    *ret = (struct prune){ 0 };
    return window_ns <= 0 ? 0 : service_each_sandbox(service, &filter, prune_one, &pruning, err);
}

/* ---- empty the trash ---- */

struct emptying {
    struct service *service;
    const struct caller *caller;
    const struct sandbox_trash_request *wish;
    struct sandbox_trash *ret;
    int64_t now_ns;
};

static int add_bytes(const struct file_entry *entry, void *cookie)
{
    /* Count disk blocks, because the user wants to know how much space is freed. */
    *(int64_t *) cookie += (int64_t) entry->st->st_blocks * 512;
    return FILE_WALK_ON;
}

/* Another call may be restoring it: lock it, then read its row again. */
static int purge(struct emptying *e, const char *id, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct sandbox_conn *conn = NULL;
    int r = life_hold(e->service, e->caller, id, &conn, &row, err);

    if (r < 0)
        return r;
    r = row.status == SANDBOX_STATUS_DELETED ? life_purge(e->service, conn, &row, err) : -ESTALE;
    life_release(conn);
    return r;
}

static int look_at(const char *name, int dir_fd, void *cookie)
{
    struct emptying *e = cookie;
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct err err = ERR_NONE;
    int64_t bytes = 0;

    if (!sandbox_id_is_valid(name) || service_find_sandbox(e->service, e->caller, name, &row, &err) < 0 ||
        row.status != SANDBOX_STATUS_DELETED)
        return 0;
    if (e->wish->measures)
        file_walk(dir_fd, ".", add_bytes, &bytes, &err);
    bool goes = e->now_ns - row.deleted_ns >= e->wish->after_ns;
    err = ERR_NONE;
    if (goes && !e->wish->is_dry && purge(e, name, &err) < 0) {
        if (err.code != ERR_OK)
            log_warn("a deleted sandbox stays in the trash", LOG_STR("sandbox_id", name), LOG_STR("error", err.text));
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

int sandboxes_empty_trash(struct service *service, const struct caller *caller, const struct sandbox_trash_request *wish,
                          struct sandbox_trash *ret, struct err *err)
{
    struct emptying e = { service, caller, wish, ret, clock_wall_ns() };

    *ret = (struct sandbox_trash){ 0 };
    return state_dir_each(&service->state_dir, look_at, &e, err);
}
