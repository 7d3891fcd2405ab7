#include "container/container_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "container/create_body.h"
#include "runtime/etc.h"

#define INIT_MAX_BYTES (16u << 20)

static int write_etc(const struct docker_order *order, int fd)
{
    size_t count;
    const struct etc_file *files = etc_files(&count);

    for (size_t i = 0; i < count; i++) {
        autodone(buf) struct buf text = BUF_EMPTY;
        bool is_wanted = false;
        int r;

        for (const char *const *path = create_body_etc; *path; path++)
            is_wanted = is_wanted || strcmp(*path, files[i].path) == 0;
        /* The shells depend on the image, not on the host, so a root without any is passed. */
        if (!is_wanted || files[i].write(&order->spec, "/proc/self/fdinfo", &text) < 0)
            continue;
        r = file_put(fd, strrchr(files[i].path, '/') + 1, text.data, text.len, 0644);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The engine can bind a file beneath closed directories, so only the file's own mode matters. */
static int copy_init(struct docker_order *order, int fd)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct stat st;
    int r;

    if (stat(order->spec.init_path, &st) < 0)
        return -errno;
    if ((st.st_mode & 0005) == 0005)
        return 0;
    r = file_read(AT_FDCWD, order->spec.init_path, INIT_MAX_BYTES, &bytes);
    if (r == 0)
        r = file_put(fd, "init", bytes.data, bytes.len, 0755);
    if (r < 0)
        return r;
    order->own_init = xprintf("%s/" CREATE_BODY_DIR "/init", order->container.dir);
    order->spec.init_path = order->own_init;
    return 0;
}

int container_dir_make(struct docker_order *order, int *ret_fd, struct err *err)
{
    autofd int dir = open(order->container.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
    int r = dir < 0 ? -errno : file_remove_tree(dir, CREATE_BODY_DIR);

    if (r == 0 && mkdirat(dir, CREATE_BODY_DIR, 0700) < 0)
        r = -errno;
    if (r == 0)
        r = fd = path_open_beneath(dir, CREATE_BODY_DIR, O_RDONLY | O_DIRECTORY, 0);
    if (r >= 0)
        r = write_etc(order, fd);
    if (r == 0)
        r = copy_init(order, fd);
    if (r < 0)
        return err_errno(err, r, "making a place for the container");
    *ret_fd = steal_fd(&fd);
    return 0;
}

/* Tells whether no other supervisor has the sandbox; none can take it while `ret_lock` is held. A sandbox without a lock
 * file is being deleted. The lock is shared, like all tests of it: with an exclusive one, a server that tests at this moment
 * would block us, or would take us for a supervisor that does not answer. */
static bool is_free(int dir, int *ret_lock)
{
    *ret_lock = openat(dir, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    return *ret_lock < 0 ? errno == ENOENT : flock(*ret_lock, LOCK_SH | LOCK_NB) == 0;
}

void container_dir_unmount(const struct docker_order *order, pid_t parent)
{
    autofd int dir = open(order->container.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), lock = -1;

    if (dir >= 0 && getppid() != parent && is_free(dir, &lock))
        umount2(order->spec.workspace, MNT_DETACH | UMOUNT_NOFOLLOW);
}

void container_dir_remove(const struct docker_order *order, pid_t parent)
{
    autofd int dir = open(order->container.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), lock = -1;

    if (dir >= 0 && (getppid() == parent || is_free(dir, &lock)))
        file_remove_tree(dir, CREATE_BODY_DIR);
}
