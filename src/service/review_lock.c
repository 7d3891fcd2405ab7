#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/copy_delta.h"
#include "fence/delta.h"
#include "fence/quiesce.h"
#include "service/caller.h"
#include "service/codebases_int.h"
#include "service/life.h"
#include "service/reviews_int.h"
#include "service/sandbox_index.h"
#include "service/sync.h"
#include "wire/ctl_file_client.h"

#define TAG 1
#define HOLD_WAIT_MS 10000
#define ASK_MS 30000
#define RELEASE_MS 120000
#define BUSY_TRIES 100
#define BUSY_WAIT_US 20000
#define BIT(name) SANDBOX_STATE_BIT(SANDBOX_STATE_##name)

char *review_lock_project_path(const char *prefix, const char *scope_path)
{
    return *prefix ? xprintf("%s/%s", prefix, scope_path) : xdup(scope_path);
}

/* sandbox_scope.c ensures that the scope is in the root or is the root. */
char *review_prefix(const struct sandbox_row *row)
{
    size_t len = strlen(row->project_root);
    const char *rest = row->scope_path;

    if (strncmp(rest, row->project_root, len) == 0)
        rest += len;
    while (*rest == '/')
        rest++;
    return xdup(rest);
}

static int check_row(const struct sandbox_row *row, int64_t version, unsigned states, const char *verbed, struct err *err)
{
    if (!(states & SANDBOX_STATE_BIT(sandbox_row_state(row))))
        return life_refuse_state(row, verbed, err);
    return life_check_version(row, version, err);
}

/* An approval becomes a version of the codebase. A sandbox that syncs has nothing to approve. */
static int review_lock_take_codebase(struct review_lock *review_lock, struct err *err)
{
    const struct sandbox_row *row = &review_lock->row;
    int r;

    if (sandbox_row_is_over_directory(row))
        return 0;
    if (row->sync_on_completion)
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, -EOPNOTSUPP,
                                      "sandbox %s syncs its changes to codebase %s; there is nothing to review", row->id,
                                      row->codebase_id),
                              "SANDBOX_SYNCS");
    r = codebase_open(review_lock->service->codebases, row->codebase_id, &review_lock->codebase, err);
    if (r < 0)
        return r;
    review_lock->by = caller_name(review_lock->caller);
    review_lock->message = xprintf("approve %s", row->id);
    review_lock->lands = (struct apply_txn_codebase){ review_lock->codebase, review_lock->by, review_lock->message };
    return 0;
}

static bool is_running(const struct review_lock *review_lock)
{
    return sandbox_row_state(&review_lock->row) == SANDBOX_STATE_ACTIVE && !review_lock->starts_again;
}

int review_lock_begin(struct service *service, const struct caller *caller, const char *id, int64_t version, unsigned states,
                      const char *verbed, struct review_lock *ret, struct err *err)
{
    int r;

    *ret = REVIEW_LOCK_NONE;
    ret->service = service;
    ret->caller = caller;
    r = life_hold(service, caller, id, &ret->conn, &ret->row, err);
    if (r == 0)
        r = check_row(&ret->row, version, states, verbed, err);
    if (r < 0)
        return r;
    ret->delta_path = sandboxes_path(service, ret->row.id, "delta");
    ret->prefix = review_prefix(&ret->row);
    ret->dir_fd = openat(service->state_dir.sandboxes_fd, ret->conn->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (ret->dir_fd < 0 && errno != ENOENT)
        return err_errno(err, -errno, "opening the changes of sandbox %s", id);
    if (ret->dir_fd < 0)
        return err_set_reason(
            err, err_set(err, ERR_FAILED_PRECONDITION, -ENOENT, "the changes of sandbox %s are not there any more", id),
            "INVALID_STATE");
    if (!is_running(ret))
        r = life_lock_dir(service, ret->conn->id, &ret->dir_lock_fd, err);
    if (r == 0)
        r = review_lock_take_codebase(ret, err);
    if (r < 0)
        return r;
    review_record_recover(ret);
    /* The recovery may have ended it. */
    return check_row(&ret->row, 0, states, verbed, err);
}

const struct apply_txn_codebase *review_lock_lands_in(const struct review_lock *review_lock)
{
    return review_lock->codebase ? &review_lock->lands : NULL;
}

void review_lock_tell_version(struct review_lock *review_lock)
{
    struct err err = ERR_NONE;

    if (!review_lock->codebase)
        return;
    if (codebases_refresh_row(review_lock->service, review_lock->codebase, &err) < 0)
        log_warn("size and version of a codebase could not be noted",
                 LOG_STR("codebase_id", codebase_id(review_lock->codebase)), LOG_STR("error", err.text));
    sync_tell_siblings(review_lock->service, codebase_id(review_lock->codebase), NULL, NULL, 0);
}

static bool is_fence(const struct review_lock *review_lock)
{
    return strcmp(review_lock->row.driver, SANDBOX_DRIVER) == 0;
}

bool review_lock_is_copy(const struct review_lock *review_lock)
{
    return strcmp(review_lock->row.driver, "copy") == 0;
}

bool review_lock_is_calm(const struct review_lock *review_lock)
{
    return review_lock->fd >= 0 || !is_running(review_lock);
}

/* The delta of a copy is locked when it is made anew. */
bool review_lock_is_locked(const struct review_lock *review_lock)
{
    return is_running(review_lock) && !review_lock_is_copy(review_lock);
}

bool review_lock_can_drop(const struct review_lock *review_lock)
{
    return is_fence(review_lock) || !is_running(review_lock);
}

/* A stop ends the sandbox's processes, so it needs a person's consent. */
static int stop_temporarily(struct review_lock *review_lock, const char *why, struct err *err)
{
    if (!review_lock->may_stop)
        return err_set_reason(
            err,
            err_set(err, ERR_FAILED_PRECONDITION, -EBUSY,
                    "sandbox %s, on the driver %s, would have to be stopped for that and started again, and its "
                    "processes would end (%s); nothing was changed",
                    review_lock->row.id, review_lock->row.driver, why),
            "WOULD_STOP");
    life_end(review_lock->service, review_lock->conn);
    review_lock->starts_again = true;
    return life_lock_dir(review_lock->service, review_lock->conn->id, &review_lock->dir_lock_fd, err);
}

static int quiesce_sandbox(struct review_lock *review_lock, struct err *err)
{
    autofd int fd = -1;
    int r = sandbox_conn_take_fd(review_lock->conn, &fd, err);

    if (r < 0)
        return err_set_reason(err, r, "INVALID_STATE");
    if (!review_lock->payload)
        review_lock->payload = xalloc(FRAME_PAYLOAD_MAX);
    r = ctl_client_quiesce(fd, TAG, HOLD_WAIT_MS, CTL_QUIESCE_MS_MAX, review_lock->payload, ASK_MS, err);
    if (r < 0)
        return err_wrap(err, r, "holding sandbox %s still", review_lock->row.id);
    review_lock->fd = steal_fd(&fd);
    return 0;
}

int review_lock_try(struct review_lock *review_lock, struct err *err)
{
    struct err why = ERR_NONE;
    int r = review_lock_is_calm(review_lock) ? 0 : quiesce_sandbox(review_lock, &why);

    if (r < 0 && is_fence(review_lock)) {
        *err = why;
        return r;
    }
    return 0;
}

int review_lock_hold(struct review_lock *review_lock, struct err *err)
{
    struct err why = ERR_NONE;
    int r = review_lock_is_calm(review_lock) ? 0 : quiesce_sandbox(review_lock, &why);

    if (r == 0)
        return 0;
    if (!is_fence(review_lock))
        return stop_temporarily(review_lock, why.text, err);
    *err = why;
    return r;
}

int review_lock_hold_to_drop(struct review_lock *review_lock, struct err *err)
{
    if (!is_running(review_lock) || is_fence(review_lock) || review_lock_is_copy(review_lock))
        return review_lock_hold(review_lock, err);
    return stop_temporarily(review_lock, "the kernel's overlayfs must not have its layers changed while it is mounted", err);
}

static int send_reverts(struct review_lock *review_lock, const struct fence_revert *drops, size_t count, struct err *err)
{
    autofree const char **paths = xalloc((count + 1) * sizeof(*paths));
    size_t path_count = 0;
    int r = 0;

    for (size_t i = 0; i < count && r == 0; i++) {
        if (drops[i].replace_fd >= 0)
            r = ctl_client_replace(review_lock->fd, TAG, drops[i].path, drops[i].replace_fd, review_lock->payload, ASK_MS, err);
        else
            paths[path_count++] = drops[i].path;
    }
    return r < 0 || path_count == 0
               ? r
               : ctl_client_revert(review_lock->fd, TAG, paths, path_count, review_lock->payload, RELEASE_MS, err);
}

/* Closing the connection releases without drops; so does an error before the release. */
static int release_quiesced(struct review_lock *review_lock, const struct fence_revert *drops, size_t count, struct err *err)
{
    int r = send_reverts(review_lock, drops, count, err);

    if (r == 0)
        r = ctl_client_release(review_lock->fd, TAG, review_lock->payload, RELEASE_MS, err);
    if (r == 0)
        sandbox_conn_give_fd(review_lock->conn, steal_fd(&review_lock->fd));
    cleanup_fd(&review_lock->fd);
    review_lock->fd = -1;
    return r;
}

static int revert_stopped(struct review_lock *review_lock, const struct fence_revert *drops, size_t count, struct err *err)
{
    int r = -EBUSY;

    /* A child of ours between its fork and its exec also holds the delta's lock for a moment. */
    for (int i = 0; i < BUSY_TRIES && r == -EBUSY; i++) {
        if (i > 0)
            usleep(BUSY_WAIT_US);
        *err = ERR_NONE;
        r = delta_revert(review_lock->delta_path, drops, count, err);
    }
    return r;
}

static const char **list_paths(const struct fence_revert *drops, size_t count)
{
    const char **paths = xalloc((count + 1) * sizeof(*paths));

    for (size_t i = 0; i < count; i++)
        paths[i] = drops[i].path + 1;
    return paths;
}

static int open_base(const struct review_lock *review_lock, struct err *err)
{
    struct delta_info about = DELTA_INFO_NONE;
    int r = delta_info_open(review_lock->delta_path, &about, err);

    if (r == 0)
        r = delta_info_open_base(&about, O_RDONLY, err);
    delta_info_done(&about);
    return r;
}

/* Only its spec, which cannot be read, says what the sandbox was made over. The delta names a directory too, but the server must not write into
 * a project because of that. */
static int refuse_broken(const struct review_lock *review_lock, struct err *err)
{
    int r = sandbox_index_check(review_lock->service, review_lock->row.id, err);

    return r < 0 ? r
                 : err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "sandbox %s was mended just now; try again",
                           review_lock->row.id);
}

int review_lock_open_root(const struct review_lock *review_lock, struct err *err)
{
    const struct sandbox_row *row = &review_lock->row;
    int r = !*row->project_root && !review_lock->codebase ? refuse_broken(review_lock, err) : 0;
    autofd int base = r < 0 ? r : open_base(review_lock, err);
    struct stat a, b;

    if (base < 0 || review_lock->codebase)
        return steal_fd(&base);
    autofd int root = path_open_real(row->project_root, O_RDONLY | O_DIRECTORY);
    autofd int scope =
        root < 0 ? root : path_open_beneath(root, *review_lock->prefix ? review_lock->prefix : ".", O_PATH | O_DIRECTORY, 0);
    if (scope < 0)
        return err_errno(err, scope, "opening the project '%s'", row->project_root);
    if (fstat(base, &a) < 0 || fstat(scope, &b) < 0)
        return err_errno(err, -errno, "opening the project '%s'", row->project_root);
    if (a.st_dev != b.st_dev || a.st_ino != b.st_ino)
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, -EXDEV,
                                      "'%s' is another directory now; put the old one back", row->project_root),
                              "BASE_REPLACED");
    return steal_fd(&root);
}

static int follow_base(struct review_lock *review_lock, const char *const *paths, size_t count, struct err *err)
{
    autofd int base = open_base(review_lock, err);

    return base < 0 ? base : copy_delta_revert(review_lock->dir_fd, base, paths, count, err);
}

int review_lock_release(struct review_lock *review_lock, const struct fence_revert *drops, size_t count, struct err *err)
{
    autofree const char **paths = list_paths(drops, count);
    int r = 0;

    /* The delta of a copy is made anew from its two trees. */
    if (count > 0 && review_lock_is_copy(review_lock))
        r = follow_base(review_lock, paths, count, err);
    else if (count > 0 && review_lock->fd < 0)
        r = revert_stopped(review_lock, drops, count, err);
    /* A running sandbox is measured when it is listed. */
    if (count > 0 && r == 0 && review_lock->fd < 0)
        sandboxes_measure(review_lock->service, &review_lock->row, &(struct err){ 0 });
    if (review_lock->fd < 0 || r < 0)
        return r;
    return is_fence(review_lock) ? release_quiesced(review_lock, drops, count, err)
                                 : release_quiesced(review_lock, NULL, 0, err);
}

/* The copy's tree is not changed, because processes have its files open. The next approval merges the project's newer
 * changes. */
int review_lock_stand(struct review_lock *review_lock, const struct fence_revert *drops, size_t count, struct err *err)
{
    autofree const char **paths = list_paths(drops, count);
    int r = copy_delta_accept(review_lock->dir_fd, paths, count, err);

    return r < 0 ? r : review_lock_release(review_lock, NULL, 0, err);
}

static int set_merge_bases_of_hunks(struct review_lock *review_lock, const struct approve *approve, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < approve->edits.count; i++) {
        const struct approve_file *file = &approve->files[i];
        if (file->outcome == APPROVE_PARTLY)
            r = copy_delta_accept_text(review_lock->dir_fd, approve->edits.items[i].path,
                                       file->merge_base.data ? file->merge_base.data : "", file->merge_base.len,
                                       file->merge_base_mode, err);
    }
    return r;
}

int review_lock_release_taken(struct review_lock *review_lock, const struct approve *approve, struct err *err)
{
    autofree struct fence_revert *drops = xalloc((approve->drop_count + 1) * sizeof(*drops));
    int r = review_lock_is_copy(review_lock) ? set_merge_bases_of_hunks(review_lock, approve, err) : 0;

    if (fault_is("release-fails"))
        r = err_set(err, ERR_UNAVAILABLE, -EIO, "the sandbox does not answer");
    if (r < 0)
        return r;
    for (size_t i = 0; i < approve->drop_count; i++)
        drops[i] = (struct fence_revert){ .path = approve->drops[i], .replace_fd = -1 };
    if (review_lock_can_drop(review_lock))
        return review_lock_release(review_lock, drops, approve->drop_count, err);
    return review_lock_is_copy(review_lock) ? review_lock_stand(review_lock, drops, approve->drop_count, err)
                                            : review_lock_release(review_lock, NULL, 0, err);
}

int review_lock_halt(struct review_lock *review_lock, struct err *err)
{
    int r;

    if (review_lock->fd >= 0)
        release_quiesced(review_lock, NULL, 0, &(struct err){ 0 });
    if (sandbox_row_state(&review_lock->row) != SANDBOX_STATE_ACTIVE)
        return 0;
    cleanup_fd(&review_lock->dir_lock_fd);
    review_lock->dir_lock_fd = -1;
    r = life_stop(review_lock->service, NULL, review_lock->conn, &review_lock->row, err);
    if (r == 0)
        review_lock->starts_again = false;
    return r < 0 ? r : life_lock_dir(review_lock->service, review_lock->conn->id, &review_lock->dir_lock_fd, err);
}

static void restart_sandbox(struct review_lock *review_lock)
{
    struct err err = ERR_NONE;

    if (sandbox_row_state(&review_lock->row) != SANDBOX_STATE_ACTIVE ||
        life_boot(review_lock->service, review_lock->conn, &review_lock->row, -1, -1, &err) == 0)
        return;
    log_warn("a sandbox could not be started again after its review", LOG_STR("sandbox_id", review_lock->row.id),
             LOG_STR("error", err.text));
    life_ended(review_lock->service, review_lock->conn, err.text);
}

void review_lock_done(struct review_lock *review_lock)
{
    if (review_lock->fd >= 0)
        release_quiesced(review_lock, NULL, 0, &(struct err){ 0 });
    cleanup_fd(&review_lock->dir_lock_fd);
    if (review_lock->starts_again)
        restart_sandbox(review_lock);
    if (review_lock->conn)
        life_release(review_lock->conn);
    cleanup_fd(&review_lock->dir_fd);
    free(review_lock->delta_path);
    free(review_lock->prefix);
    free(review_lock->payload);
    codebase_close(review_lock->codebase);
    free(review_lock->message);
    free(review_lock->by);
    sandbox_row_done(&review_lock->row);
    *review_lock = REVIEW_LOCK_NONE;
}
