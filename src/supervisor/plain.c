#include "supervisor/plain.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "fence/copy_delta.h"
#include "policy/rule.h"
#include "runtime/runtime.h"
#include "supervisor/bind.h"
#include "supervisor/fence_server.h"
#include "supervisor/overlay.h"
#include "supervisor/sandbox.h"

struct plain {
    struct overlay_config overlay; /* its paths are owned, except the sandbox's */
    char *delta_path, *lower_point, *copy_path;
    bool is_overlay;
    int lock_fd;    /* owned: the delta's lock, for overlayfs */
    int sandbox_fd; /* borrowed */
    struct sandbox *sandbox;
    pthread_rwlock_t calm; /* read-locked by clients' changes, write-locked while quiesced */
};

bool plain_is_wanted(const struct sandbox *sandbox)
{
    const char *driver = sandbox->spec->driver;

    return driver && *driver && strcmp(driver, "fence") != 0;
}

/* Refuses settings that only the fence can enforce. */
static int plain_check(const struct sandbox *sandbox, struct err *err)
{
    const struct sandbox_spec *spec = sandbox->spec;
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    int r = fence_server_rules(spec, &rules, err);

    if (r < 0)
        return r;
    if (strcmp(spec->driver, "overlayfs") != 0 && strcmp(spec->driver, "copy") != 0)
        return err_invalid(err, "unknown driver '%s'; there are fence, overlayfs and copy", spec->driver);
    if (sandbox_spec_is_container(spec))
        return err_invalid(err, "the driver %s does not go with containers; use fence", spec->driver);
    if (!rule_list_forbids_nothing(&rules))
        return err_invalid(err, "the driver %s checks nothing, but these rules forbid something; use fence", spec->driver);
    if (spec->quota_bytes || spec->quota_inodes)
        return err_invalid(err, "the driver %s cannot hold a disk limit; use fence", spec->driver);
    if (spec->codebase_path && *spec->codebase_path)
        return err_invalid(err, "the driver %s is for live directories; use fence", spec->driver);
    return 0;
}

static int start_copy(struct sandbox *sandbox, struct plain *plain, struct err *err)
{
    /* The copy precedes the delta, which records the origin of the copy. */
    int r = copy_delta_make(sandbox->dir_fd, sandbox->base_fd, err);

    plain->copy_path = xprintf("%s/" COPY_DELTA_WORKSPACE, sandbox->dir_path);
    if (r == 0)
        r = copy_delta_refresh(sandbox->dir_fd, plain->delta_path, sandbox->spec->base_path, sandbox->base_fd, err);
    return r < 0 ? r : bind_as(plain->copy_path, sandbox->mount_point, sandbox->identity.uid, sandbox->identity.gid, 0, err);
}

int plain_start(struct sandbox *sandbox, struct plain **ret, struct err *err)
{
    autoptr(plain) plain = NULL;
    int r = plain_check(sandbox, err);

    if (r < 0)
        return r;
    plain = xnew(struct plain);
    plain->lock_fd = -1;
    plain->sandbox = sandbox;
    pthread_rwlock_init(&plain->calm, NULL);
    plain->sandbox_fd = sandbox->dir_fd;
    plain->delta_path = xprintf("%s/delta", sandbox->dir_path);
    plain->lower_point = xprintf("%s/lower", sandbox->dir_path);
    plain->is_overlay = strcmp(sandbox->spec->driver, "overlayfs") == 0;
    plain->overlay = (struct overlay_config){
        .base_fd = sandbox->base_fd,
        .base_path = sandbox->spec->base_path,
        .delta_path = plain->delta_path,
        .lower_point = plain->lower_point,
        .mount_point = sandbox->mount_point,
        .uid = sandbox->identity.uid,
        .gid = sandbox->identity.gid,
    };
    r = plain->is_overlay ? overlay_mount(&plain->overlay, &plain->lock_fd, err) : start_copy(sandbox, plain, err);
    if (r == 0)
        *ret = steal_ptr(&plain);
    return r;
}

/* Updates the delta, so that it shows the changes while the sandbox does not run. */
static void end_copy(struct plain *plain)
{
    struct err err = ERR_NONE;

    bind_undo(plain->overlay.mount_point);
    if (copy_delta_refresh(plain->sandbox_fd, plain->delta_path, plain->overlay.base_path, plain->overlay.base_fd, &err) < 0)
        log_warn("the changes are told when somebody asks", LOG_STR("error", err.text));
}

void plain_free(struct plain *plain)
{
    if (!plain)
        return;
    if (plain->is_overlay && plain->lock_fd >= 0)
        overlay_unmount(&plain->overlay, plain->lock_fd);
    else if (!plain->is_overlay && plain->copy_path)
        end_copy(plain);
    free(plain->delta_path);
    free(plain->lower_point);
    free(plain->copy_path);
    pthread_rwlock_destroy(&plain->calm);
    free(plain);
}

int plain_quiesce(struct plain *plain, uint32_t wait_ms, struct err *err)
{
    struct timespec until = clock_timespec_of_ns(clock_now_ns() + wait_ms * CLOCK_NS_PER_MS);
    int r = -pthread_rwlock_clockwrlock(&plain->calm, CLOCK_MONOTONIC, &until);

    if (r < 0)
        return err_errno(err, r, "waiting for changes to files to end");
    r = runtime_freeze(plain->sandbox->process, true);
    if (r == 0)
        return 0;
    plain_release(plain);
    return r == -ENOTSUP ? err_set(err, ERR_FAILED_PRECONDITION, r,
                                   "its processes cannot be made to stand still: they have no cgroup that can be frozen")
                         : err_errno(err, r, "making the sandbox's processes stand still");
}

void plain_release(struct plain *plain)
{
    int r = runtime_freeze(plain->sandbox->process, false);

    if (r < 0 && r != -ENOTSUP)
        log_error("a sandbox's processes do not go on", LOG_ERRNO("error", r));
    pthread_rwlock_unlock(&plain->calm);
}

void plain_change_begin(struct plain *plain)
{
    pthread_rwlock_rdlock(&plain->calm);
}

void plain_change_end(struct plain *plain)
{
    pthread_rwlock_unlock(&plain->calm);
}
