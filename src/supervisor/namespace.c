#include "supervisor/namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

static int write_file(const char *path, const char *text)
{
    autofd int fd = open(path, O_WRONLY | O_CLOEXEC);

    return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}

/* One id each, mapped to itself: all that may be done without help. */
static int map_ids(uid_t uid, gid_t gid)
{
    char line[64];
    int r = write_file("/proc/self/setgroups", "deny");

    if (r < 0 && r != -ENOENT)
        return r;
    snprintf(line, sizeof(line), "%u %u 1\n", uid, uid);
    r = write_file("/proc/self/uid_map", line);
    if (r < 0)
        return r;
    snprintf(line, sizeof(line), "%u %u 1\n", gid, gid);
    return write_file("/proc/self/gid_map", line);
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
    /* What the host mounts later is seen here; what is mounted here is not seen there. */
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return err_errno(err, -errno, "closing the mount namespace towards the host");
    return 0;
}
