#include "supervisor/bind.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "supervisor/owner_map.h"

/* Raw system calls: the C library's sys/mount.h conflicts with the kernel's linux/mount.h on some systems. */
#define DETACH 2

static int set_attrs(int tree, int map_fd, uint64_t attrs)
{
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | attrs };

    if (map_fd >= 0) {
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (uint64_t) map_fd;
    }
    return syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

int bind_fd_as(int from_fd, const char *name, const char *to, uid_t uid, gid_t gid, uint64_t attrs, struct err *err)
{
    struct stat st;
    autofd int map = -1, tree = -1;
    int r;

    if (fstat(from_fd, &st) < 0)
        return err_errno(err, -errno, "'%s'", name);
    if (st.st_uid != uid || st.st_gid != gid) {
        map = owner_map_new((struct owner){ st.st_uid, st.st_gid }, (struct owner){ uid, gid });
        if (map < 0)
            return err_errno(err, map, "mapping the owner of '%s'", name);
    }
    tree = (int) syscall(SYS_open_tree, from_fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    r = tree < 0 ? -errno : set_attrs(tree, map, attrs);
    if (r == 0 && syscall(SYS_move_mount, tree, "", AT_FDCWD, to, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        r = -errno;
    return r < 0 ? err_errno(err, r, "mounting '%s' for the sandbox's user", name) : 0;
}

int bind_as(const char *from, const char *to, uid_t uid, gid_t gid, uint64_t attrs, struct err *err)
{
    autofd int fd = open(from, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? err_errno(err, -errno, "'%s'", from) : bind_fd_as(fd, from, to, uid, gid, attrs, err);
}

void bind_undo(const char *at)
{
    syscall(SYS_umount2, at, DETACH);
}
