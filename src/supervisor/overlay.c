#include "supervisor/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/mem.h"
#include "fence/fence.h"
#include "fence/overlay_delta.h"
#include "supervisor/bind.h"

#define LOCK_TRIES 200
#define LOCK_WAIT_US 10000

/* Raw system calls: the C library's sys/mount.h conflicts with the kernel's linux/mount.h on some systems. */
static int config_string(int fd, const char *key, const char *value)
{
    return syscall(SYS_fsconfig, fd, FSCONFIG_SET_STRING, key, value, 0) < 0 ? -errno : 0;
}

static int mount_layers(const struct overlay_config *config, struct err *err)
{
    int r;

    if (mkdir(config->lower_point, 0700) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "'%s'", config->lower_point);
    r = bind_fd_as(config->base_fd, config->base_path, config->lower_point, config->uid, config->gid, MOUNT_ATTR_RDONLY, err);
    /* The upper and the work directory must be on the same mount. */
    return r < 0 ? r : bind_as(config->delta_path, config->delta_path, config->uid, config->gid, 0, err);
}

/* One key per path, so that no character in a path is special. Kernels before 6.8 have only the key that takes a list. */
static int mount_overlay(const struct overlay_config *config, struct err *err)
{
    autofree char *upper = xprintf("%s/data", config->delta_path), *work = xprintf("%s/work", config->delta_path);
    autofd int fs = (int) syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC), mnt = -1;
    int r = fs < 0 ? -errno : config_string(fs, "lowerdir+", config->lower_point);

    if (r == -EINVAL && !strpbrk(config->lower_point, ":\\,"))
        r = config_string(fs, "lowerdir", config->lower_point);
    if (r == 0)
        r = config_string(fs, "upperdir", upper);
    if (r == 0)
        r = config_string(fs, "workdir", work);
    if (r == 0 && syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0)
        r = -errno;
    if (r == 0 && syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        r = -errno;
    if (r == 0 && (mnt = (int) syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)) < 0)
        r = -errno;
    if (r == 0 && syscall(SYS_move_mount, mnt, "", AT_FDCWD, config->mount_point, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        r = -errno;
    return r < 0 ? err_set(err, ERR_FAILED_PRECONDITION, r,
                           "the kernel's overlayfs cannot be mounted here over '%s' (%s); use the driver fence or copy",
                           config->base_path, strerror(-r))
                 : 0;
}

static int overlay_lend_delta(const struct overlay_config *config, int *ret_lock_fd, struct err *err)
{
    autofd int delta = open(config->delta_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    autofd int lock = delta < 0 ? -1 : openat(delta, "meta/lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r;

    if (lock < 0)
        return err_errno(err, -errno, "'%s'", config->delta_path);
    if (flock(lock, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "delta '%s' is in use", config->delta_path);
    r = overlay_delta_to_overlayfs(delta, err);
    if (r == 0)
        *ret_lock_fd = steal_fd(&lock);
    return r;
}

static void overlay_take_back_delta(const struct overlay_config *config, int lock_fd)
{
    autofd int delta = open(config->delta_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct err err = ERR_NONE;

    if (delta >= 0 && overlay_delta_from_overlayfs(delta, &err) < 0)
        log_warn("the delta stays as overlayfs left it", LOG_STR("error", err.text));
    close(lock_fd);
}

/* Retries because a child between fork and exec briefly holds a copy of every descriptor, including the lock's. */
static int lend_delta_with_retry(const struct overlay_config *config, int *ret_lock_fd, struct err *err)
{
    struct fence_config delta = {
        .base_path = config->base_path, .base_fd = config->base_fd, .delta_path = config->delta_path, .is_live = true
    };
    int r = -EBUSY;

    for (int i = 0; i < LOCK_TRIES && r == -EBUSY; i++) {
        if (i > 0)
            usleep(LOCK_WAIT_US);
        *err = ERR_NONE;
        r = fence_recover_delta(&delta, err);
        if (r == 0)
            r = overlay_lend_delta(config, ret_lock_fd, err);
    }
    return r;
}

int overlay_mount(const struct overlay_config *config, int *ret_lock_fd, struct err *err)
{
    int lock_fd = -1, r = lend_delta_with_retry(config, &lock_fd, err);

    if (r < 0)
        return r;
    r = mount_layers(config, err);
    if (r == 0)
        r = mount_overlay(config, err);
    if (r < 0) {
        overlay_unmount(config, lock_fd);
        return r;
    }
    *ret_lock_fd = lock_fd;
    return 0;
}

void overlay_unmount(const struct overlay_config *config, int lock_fd)
{
    const char *const points[] = { config->mount_point, config->delta_path, config->lower_point };

    for (size_t i = 0; i < ARRAY_LEN(points); i++)
        bind_undo(points[i]);
    overlay_take_back_delta(config, lock_fd);
}
