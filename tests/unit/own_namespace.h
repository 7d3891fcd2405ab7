/*
 * Mounts of a test's own, for ordinary users too.
 */
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static inline bool own_namespace_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t n = write(fd, text, strlen(text));

    close(fd);
    return n == (ssize_t) strlen(text);
}

/* From now on this process has a mount namespace of its own, of which an ordinary user is root: with both its ids mapped, or no file could
 * be made on what is mounted there. Descriptors opened before still see the old mounts. False where the kernel does not let us. */
static inline bool own_namespace_enter(void)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    char users[32], groups[32];

    snprintf(users, sizeof(users), "0 %u 1", uid);
    snprintf(groups, sizeof(groups), "0 %u 1", gid);
    if ((uid != 0 || unshare(CLONE_NEWNS) < 0) &&
        (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || !own_namespace_write("/proc/self/setgroups", "deny") ||
         !own_namespace_write("/proc/self/uid_map", users) || !own_namespace_write("/proc/self/gid_map", groups)))
        return false;
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}
