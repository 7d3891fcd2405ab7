#include "supervisor/boot_fence.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "supervisor/codebase_sync.h"
#include "supervisor/plain.h"
#include "supervisor/sandbox.h"

#define FUSE_DEVICE "/dev/fuse"
#define FUSE_MAJOR 10
#define FUSE_MINOR 229

static void on_fence_end(int r, void *cookie)
{
    struct err err = ERR_NONE;

    err_errno(&err, r < 0 ? r : -ENOTCONN, "the fence stopped");
    sandbox_fail(cookie, &err);
}

/* Explains the usual reasons why a fence cannot be mounted. */
static int explain_fuse(int r, struct err *err)
{
    struct stat st;

    if (stat(FUSE_DEVICE, &st) < 0)
        return err_set(err, ERR_FAILED_PRECONDITION, r,
                       "there is no " FUSE_DEVICE
                       "; load the module (modprobe fuse), or give it to the container (--device " FUSE_DEVICE ")");
    if (!S_ISCHR(st.st_mode) || major(st.st_rdev) != FUSE_MAJOR || minor(st.st_rdev) != FUSE_MINOR)
        return err_set(err, ERR_FAILED_PRECONDITION, r, FUSE_DEVICE " is not the FUSE device; 'agentfense doctor' tells more");
    if (access(FUSE_DEVICE, R_OK | W_OK) < 0)
        return err_set(err, ERR_FAILED_PRECONDITION, r,
                       FUSE_DEVICE " is closed to this user (mode %04o); as root: chmod 0666 " FUSE_DEVICE,
                       (unsigned) st.st_mode & 07777);
    if (r == -EPERM || r == -EACCES)
        return err_wrap(err, r,
                        "mounting is forbidden here, as in most containers ('agentfense doctor' tells what is missing)");
    return r;
}

static int make_fence(struct sandbox *sandbox, struct err *err)
{
    struct fence_server_config config = {
        .dir_path = sandbox->dir_path,
        .mount_point = sandbox->mount_point,
        .spec = sandbox->spec,
        .base_fd = sandbox->base_fd,
        .uid = sandbox->identity.uid,
        .gid = sandbox->identity.gid,
        .reactor = &sandbox->reactor,
        .exec_of_pid = &sandbox->exec_of_pid,
        .event_log = &sandbox->event_log,
        .on_end = on_fence_end,
        .cookie = sandbox,
    };

    int r = codebase_sync_open(sandbox->spec, &sandbox->codebase_sync, err);
    if (r < 0)
        return r;
    if (plain_is_wanted(sandbox))
        return plain_start(sandbox, &sandbox->plain, err);
    r = fence_server_start(&config, &sandbox->fence_server, err);
    return r < 0 ? explain_fuse(r, err) : r;
}

static void *boot_fence_thread(void *cookie)
{
    struct boot_fence *start = cookie;

    start->r = make_fence(start->sandbox, &start->err);
    return NULL;
}

int boot_fence_begin(struct boot_fence *start, struct sandbox *sandbox, struct err *err)
{
    int r;

    *start = (struct boot_fence){ .sandbox = sandbox, .err = ERR_NONE };
    r = pthread_create(&start->thread, NULL, boot_fence_thread, start);
    start->is_joined = r != 0;
    return r ? err_errno(err, -r, "starting a thread") : 0;
}

int boot_fence_await(void *cookie, struct err *err)
{
    struct boot_fence *start = cookie;

    if (!start->is_joined)
        pthread_join(start->thread, NULL);
    start->is_joined = true;
    if (start->r < 0)
        *err = start->err;
    return start->r;
}
