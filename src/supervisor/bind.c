#include "supervisor/bind.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"

struct owner {
    uid_t uid;
    gid_t gid;
};

#define LAST_ID 4294967294u /* the next number is (uid_t) -1 */

static void add_range(struct buf *map, uint64_t from, uint64_t to, uint64_t count)
{
    if (count > 0)
        buf_addf(map, "%lu %lu %lu\n", (unsigned long) from, (unsigned long) to, (unsigned long) count);
}

/* Maps all ids to themselves, except that these two are exchanged. */
static void make_map(struct buf *map, uint64_t a, uint64_t b)
{
    uint64_t low = a < b ? a : b, high = a < b ? b : a;

    add_range(map, 0, 0, low);
    if (low != high) {
        add_range(map, low, high, 1);
        add_range(map, low + 1, low + 1, high - low - 1);
        add_range(map, high, low, 1);
    } else {
        add_range(map, low, low, 1);
    }
    add_range(map, high + 1, high + 1, LAST_ID - high);
}

static int write_map(pid_t pid, const char *file, uint64_t a, uint64_t b)
{
    autodone(buf) struct buf map = BUF_EMPTY;
    char path[64];

    make_map(&map, a, b);
    snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, file);
    return file_write_kernel(path, map.data);
}

/* Returns a user namespace for an idmapped mount (MOUNT_ATTR_IDMAP) that shows the files of one owner as another's. The two are exchanged;
 * all other ids stay the same. -EPERM without root. */
static int owner_map_new(struct owner on_disk, struct owner shown)
{
    char path[64];
    int r, fd = -1, status;
    /* A child that keeps the namespace alive until we have opened it. It shares nothing with us and does nothing, so our
     * threads do not matter. */
    pid_t pid = (pid_t) syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid < 0)
        return -errno;
    if (pid == 0) {
        syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        for (;;)
            syscall(SYS_pause);
    }
    r = write_map(pid, "uid_map", on_disk.uid, shown.uid);
    if (r == 0)
        r = write_map(pid, "gid_map", on_disk.gid, shown.gid);
    snprintf(path, sizeof(path), "/proc/%d/ns/user", (int) pid);
    if (r == 0 && (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        r = -errno;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return r < 0 ? r : fd;
}

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
