#include "supervisor/namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

/* A sandbox may use one part in this many of its owner's inotify limits. */
#define INOTIFY_SHARE 4

/* Maps one uid and one gid to themselves, which needs no privilege. */
static int map_ids(uid_t uid, gid_t gid)
{
    char line[64];
    int r = file_write_kernel("/proc/self/setgroups", "deny");

    if (r < 0 && r != -ENOENT)
        return r;
    snprintf(line, sizeof(line), "%u %u 1\n", uid, uid);
    r = file_write_kernel("/proc/self/uid_map", line);
    if (r < 0)
        return r;
    snprintf(line, sizeof(line), "%u %u 1\n", gid, gid);
    return file_write_kernel("/proc/self/gid_map", line);
}

/* A sandbox of an ordinary user has its owner's uid on the host, and the kernel counts inotify per uid. In our own user
 * namespace a lower limit applies as well, to everything in it: we and the agent get a share, and the rest remains for the
 * owner. Where /proc/sys is read-only, as in some containers, there is no such limit. */
static void limit_inotify(void)
{
    static const char *const limits[][2] = {
        { "/proc/sys/fs/inotify/max_user_instances", "/proc/sys/user/max_inotify_instances" },
        { "/proc/sys/fs/inotify/max_user_watches", "/proc/sys/user/max_inotify_watches" },
    };

    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        autodone(buf) struct buf value = BUF_EMPTY;
        char text[32];

        if (file_read_kernel(limits[i][0], sizeof(text), &value) < 0 || value.len == 0)
            continue;
        long most = strtol(value.data, NULL, 10) / INOTIFY_SHARE;
        snprintf(text, sizeof(text), "%ld\n", most > 0 ? most : 1);
        int r = file_write_kernel(limits[i][1], text);
        if (r < 0)
            log_debug("the sandbox has no limit of inotify of its own", LOG_STR("file", limits[i][1]));
    }
}

int namespace_enter(struct err *err)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    int r;

    if (unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return err_errno(err, -errno, "making a namespace for the mount%s; 'agentfense doctor' says what is missing",
                         uid == 0 ? "" : " (user namespaces may be forbidden here)");
    r = uid == 0 ? 0 : map_ids(uid, gid);
    if (r < 0)
        return err_errno(err, r, "mapping our user into a namespace");
    if (uid != 0)
        limit_inotify();
    /* Later mounts of the host appear here; our mounts do not appear on the host. */
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return err_errno(err, -errno, "closing the mount namespace towards the host");
    return 0;
}
