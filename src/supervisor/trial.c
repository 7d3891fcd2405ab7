#include "supervisor/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "runtime/identity.h"
#include "supervisor/file_op.h"
#include "supervisor/namespace.h"
#include "supervisor/overlay.h"

static void trial_print_result(const char *driver, bool works, const char *reason)
{
    printf("%s\t%s\t%s\n", driver, works ? "yes" : "no", reason);
}

static void try_fence(void)
{
    autofd int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    autofree char *reason = fd < 0 ? xprintf("/dev/fuse does not open: %s", strerror(errno)) : xdup("/dev/fuse opens");

    trial_print_result("fence", fd >= 0, reason);
}

/* We open the directory, and the sandbox's user creates the entry, because that user may be unable to reach the directory. */
static int write_into(const struct overlay_config *config, struct err *err)
{
    autofd int root = open(config->mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    autofree char *made = xprintf("%s/data/trial", config->delta_path);
    int r = root < 0 ? -errno : 0;

    if (r == 0 && config->uid != geteuid())
        r = file_op_become(config->uid, config->gid);
    if (r == 0 && mkdirat(root, "trial", 0755) < 0)
        r = -errno;
    if (config->uid != geteuid())
        file_op_become(geteuid(), getegid());
    if (r == 0 && access(made, F_OK) < 0)
        r = -errno;
    return r < 0 ? err_errno(err, r, "the kernel's overlayfs mounts, but cannot be written to") : 0;
}

/* As root a sandbox has its own user, so the trial maps the layers' owner to one. Which one does not matter, as nothing
 * remains of it. */
static void try_overlay(const char *place)
{
    autofree char *base = xprintf("%s/base", place), *delta = xprintf("%s/delta", place);
    autofree char *lower = xprintf("%s/lower", place), *at = xprintf("%s/at", place);
    bool is_root = identity_is_host_root();
    struct overlay_config config = { .base_fd = -1,
                                     .base_path = base,
                                     .delta_path = delta,
                                     .lower_point = lower,
                                     .mount_point = at,
                                     .uid = is_root ? IDENTITY_FIRST + IDENTITY_COUNT - 1 : geteuid(),
                                     .gid = is_root ? IDENTITY_FIRST + IDENTITY_COUNT - 1 : getegid() };
    struct err err = ERR_NONE;
    autofd int base_fd = -1;
    int lock_fd = -1, r = 0;

    if (mkdir(base, 0755) < 0 || mkdir(at, 0755) < 0 || (base_fd = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        r = err_errno(&err, -errno, "making directories for a trial");
    config.base_fd = base_fd;
    if (r == 0)
        r = overlay_mount(&config, &lock_fd, &err);
    if (r == 0)
        r = write_into(&config, &err);
    if (lock_fd >= 0)
        overlay_unmount(&config, lock_fd);
    trial_print_result("overlayfs", r == 0,
                       r < 0     ? err.text
                       : is_root ? "mounted a trial, with its owner mapped"
                                 : "mounted a trial, in a user namespace");
}

static void try_copy(int place_fd)
{
    autofd int a = openat(place_fd, "a", O_RDWR | O_CREAT | O_CLOEXEC, 0600),
               b = openat(place_fd, "b", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool refers = a >= 0 && b >= 0 && fd_write_full(a, "x", 1) == 0 && ioctl(b, FICLONE, a) == 0;

    trial_print_result("copy", a >= 0 && b >= 0,
                       refers             ? "files are copied by reference"
                       : a >= 0 && b >= 0 ? "files are copied byte by byte: this file system has no references"
                                          : "nothing can be written there");
}

int trial_run(const char *dir_path, struct err *err)
{
    autofree char *place = xprintf("%s/trial-XXXXXX", dir_path);
    autofd int dir = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), place_fd = -1;
    struct err entering = ERR_NONE;
    int r;

    if (dir < 0)
        return err_errno(err, -errno, "'%s'", dir_path);
    try_fence();
    r = namespace_enter(&entering);
    if (!mkdtemp(place))
        return err_errno(err, -errno, "making a directory for a trial in '%s'", dir_path);
    if (r < 0)
        trial_print_result("overlayfs", false, entering.text);
    else
        try_overlay(place);
    place_fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    try_copy(place_fd);
    fflush(stdout);
    r = file_remove_tree(dir, strrchr(place, '/') + 1);
    return r < 0 ? err_errno(err, r, "removing the trial") : 0;
}
