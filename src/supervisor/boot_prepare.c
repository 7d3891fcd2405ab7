#include "supervisor/boot_prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/stage.h"
#include "supervisor/leftovers.h"
#include "supervisor/namespace.h"
#include "supervisor/sandbox.h"
#include "wire/runtime_type.h"

/* Root's sandboxes lock their uids in one directory for the whole host, whatever state directories exist. bwrap runs as the
 * sandbox's user and must be able to reach the fence, but root's state directories are closed to that user. So every
 * supervisor of root mounts its fence on this one directory, each in its own namespace. */
#define RUN_DIR "/run/agentfense"
#define RUN_UIDS RUN_DIR "/uids"
#define RUN_MOUNT_POINT RUN_DIR "/mnt"

/* A container's engine bind-mounts from the host's namespace, so the fence must be mounted there. */
static bool is_host_visible(const struct sandbox *sandbox)
{
    const struct runtime_type *type = runtime_type_find(sandbox->spec->runtime);

    return type && type->mount_scope == RUNTIME_MOUNT_HOST_VISIBLE;
}

int boot_open_base(struct sandbox *sandbox, int inherited_fd, struct err *err)
{
    const struct sandbox_spec *spec = sandbox->spec;

    sandbox->base_fd = inherited_fd;
    if (inherited_fd >= 0 || *spec->codebase_path)
        return 0;
    sandbox->base_fd = path_open_real(spec->base_path, O_RDONLY | O_DIRECTORY);
    return sandbox->base_fd < 0 ? err_errno(err, sandbox->base_fd, "opening '%s'", spec->base_path) : 0;
}

/* A descriptor belongs to the mount namespace in which it was opened, and nothing in another namespace can be mounted. The
 * kernel carries over the current directory, so the base comes along without a second lookup of its name. */
static int enter_with_base(struct sandbox *sandbox, struct err *err)
{
    int r;

    if (sandbox->base_fd >= 0 && fchdir(sandbox->base_fd) < 0)
        return err_errno(err, -errno, "entering '%s'", sandbox->spec->base_path);
    r = namespace_enter(err);
    if (r < 0 || sandbox->base_fd < 0)
        return r;
    autofd int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || chdir("/") < 0)
        return err_errno(err, -errno, "opening '%s'", sandbox->spec->base_path);
    close(sandbox->base_fd);
    sandbox->base_fd = steal_fd(&fd);
    return 0;
}

/* Only root can mount on the host. Also, without root there is no other user to run the commands as. */
int boot_enter_namespace(struct sandbox *sandbox, struct err *err)
{
    if (!is_host_visible(sandbox))
        return enter_with_base(sandbox, err);
    if (!identity_is_host_root())
        return err_set(
            err, ERR_FAILED_PRECONDITION, -EPERM,
            "a container needs a mount that the Docker engine can see, which only root can make; the runtime 'bwrap' "
            "needs no root");
    return 0;
}

/* Sets the mode explicitly: the umask, or an earlier creator, may have closed the directory. */
static int open_dir_beneath(int root, const char *path, mode_t mode)
{
    int r = path_mkdirs_beneath(root, path, mode);
    autofd int fd = r < 0 ? r : path_open_beneath(root, path, O_RDONLY | O_DIRECTORY, 0);

    if (fd >= 0 && fchmod(fd, mode) < 0)
        return -errno;
    return fd < 0 ? fd : steal_fd(&fd);
}

static int open_run_dir(const char *path, mode_t mode, struct err *err)
{
    autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    autofd int above = open_dir_beneath(root, &RUN_DIR[1], 0711);
    int fd = above < 0 ? above : open_dir_beneath(root, path + 1, mode);

    return fd < 0 ? err_errno(err, fd, "'%s'", path) : fd;
}

int boot_allocate_identity(struct sandbox *sandbox, struct err *err)
{
    autofd int locks = -1;

    if (identity_is_host_root()) {
        locks = open_run_dir(RUN_UIDS, 0700, err);
        if (locks < 0)
            return locks;
    }
    return identity_allocate(locks, IDENTITY_FIRST, IDENTITY_COUNT, &sandbox->identity, err);
}

/* The sandbox's root is built on a stage, with the fence inside. Where that is impossible, only the fence is mounted. */
static void open_stage(struct sandbox *sandbox)
{
    const struct runtime_type *type = runtime_type_find(sandbox->spec->runtime);

    if (!type || !type->is_staged)
        return;
    if (stage_open(sandbox->mount_point, sandbox->identity.uid, sandbox->identity.gid) < 0)
        return;
    sandbox->stage = sandbox->mount_point;
    sandbox->mount_point = xprintf("%s%s", sandbox->stage, STAGE_WORKSPACE);
}

/* On the host nothing is mounted there, so a file that a user puts into it reaches no sandbox. The mode forbids such files;
 * root, whom modes do not stop, uses RUN_MOUNT_POINT instead. */
static int make_own_mount_dir(struct sandbox *sandbox, struct err *err)
{
    if (mkdirat(sandbox->dir_fd, "mnt", 0500) == 0)
        return 0;
    if (errno == EEXIST && fchmodat(sandbox->dir_fd, "mnt", 0500, 0) == 0)
        return 0;
    return err_errno(err, -errno, "making a mount point");
}

int boot_choose_mount_point(struct sandbox *sandbox, struct err *err)
{
    autofd int fd = -1;

    if (is_host_visible(sandbox)) {
        if (mkdirat(sandbox->dir_fd, "mnt", 0700) < 0 && errno != EEXIST)
            return err_errno(err, -errno, "making a mount point");
        leftovers_unmount(sandbox->dir_path);
        sandbox->mount_point = xprintf("%s/mnt", sandbox->dir_path);
    } else if (sandbox->identity.uid == geteuid()) {
        int r = make_own_mount_dir(sandbox, err);

        if (r < 0)
            return r;
        sandbox->mount_point = xprintf("%s/mnt", sandbox->dir_path);
    } else {
        unlinkat(sandbox->dir_fd, "mnt", AT_REMOVEDIR);
        fd = open_run_dir(RUN_MOUNT_POINT, 0711, err);
        if (fd < 0)
            return fd;
        sandbox->mount_point = xdup(RUN_MOUNT_POINT);
    }
    open_stage(sandbox);
    return 0;
}
