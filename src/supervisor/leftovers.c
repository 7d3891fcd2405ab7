#include "supervisor/leftovers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/coverage.h"
#include "base/log.h"
#include "base/mem.h"
#include "runtime/bwrap_orphan.h"
#include "runtime/cgroup_tree.h"
#include "supervisor/cgroup_name.h"

#define MOUNTS_MAX 16
#define LEFTOVERS_SWEEPER "af-sweeper"

/* A cgroup of another state directory may be in use. One of this directory is unused if its sandbox has no supervisor, or
 * does not exist any more, because a sandbox is deleted under its lock. */
static bool is_in_use(const char *cgroup, void *cookie)
{
    const char *home = cookie;
    const char *name = cgroup_name_sandbox(home, cgroup);
    autofree char *path = xprintf("%s/%s/lock", home, name ? name : "");
    autofd int fd = -1;

    if (!name)
        return true;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? errno != ENOENT : flock(fd, LOCK_SH | LOCK_NB) < 0;
}

void leftovers_unmount(const char *dir_path)
{
    autofree char *path = xprintf("%s/mnt", dir_path);

    for (int i = 0; i < MOUNTS_MAX && umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0; i++)
        log_info("removed a mount that was left behind", LOG_STR("path", path));
}

/* Unmounts the fence of a sandbox of this state directory whose supervisor is gone. Mounts in other namespaces are invisible
 * here. */
static void sweep_mount(const char *home, const char *name)
{
    autofree char *path = xprintf("%s/%s", home, name), *lock = xprintf("%s/lock", path);
    autofd int fd = open(lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        leftovers_unmount(path);
}

/* Parses lines like "36 31 0:33 / /home/x/mnt rw - fuse.agentfense agentfense rw". The kernel escapes some characters in
 * them, but sandbox names contain none. If the state directory's path does, only its own sandboxes clean up. */
static void sweep_mounts(const char *home)
{
    autofile FILE *mounts = fopen("/proc/self/mountinfo", "re");
    autofree char *line = NULL;
    size_t cap = 0, len = strlen(home);

    while (mounts && getline(&line, &cap, mounts) > 0) {
        char path[PATH_MAX], *slash;

        if (!strstr(line, " - fuse.agentfense ") || sscanf(line, "%*s %*s %*s %*s %4095s", path) != 1)
            continue;
        if (strncmp(path, home, len) != 0 || path[len] != '/' || !(slash = strchr(path + len + 1, '/')) ||
            strcmp(slash, "/mnt") != 0)
            continue;
        *slash = '\0';
        if (sandbox_name_is_valid(path + len + 1))
            sweep_mount(home, path + len + 1);
    }
}

static void sweep_home(char *home)
{
    autoptr(cgroup_tree) tree = NULL;
    struct err err = ERR_NONE;
    int processes = bwrap_orphan_sweep(), cgroups = 0;

    if (cgroup_tree_new(NULL, &tree, &err) == 0)
        cgroups = cgroup_tree_sweep(tree, "", is_in_use, home);
    sweep_mounts(home);
    if (processes > 0 || cgroups > 0)
        log_info("removed what was left behind", LOG_INT("processes", processes), LOG_INT("cgroups", cgroups));
}

static void *leftovers_thread(void *cookie)
{
    autofree char *home = cookie;

    sweep_home(home);
    return NULL;
}

static char *home_of(const char *dir_path)
{
    const char *slash = strrchr(dir_path, '/');

    return xdupn(dir_path, slash ? (size_t) (slash - dir_path) : 0);
}

void leftovers_sweep(const char *dir_path)
{
    char *home = home_of(dir_path);
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, leftovers_thread, home) != 0)
        free(home);
    pthread_attr_destroy(&attr);
}

/* Reading all of /proc takes longer than the rest of a short sandbox's end, and our starter waits for our process. */
void leftovers_sweep_detached(const char *dir_path)
{
    autofree char *home = home_of(dir_path);

    if (fork() != 0)
        return;
    close_range(STDERR_FILENO + 1, ~0U, 0);
    prctl(PR_SET_NAME, LEFTOVERS_SWEEPER); /* scripts that count supervisors must not count this process */
    sweep_home(home);
    coverage_save();
    _exit(0);
}
