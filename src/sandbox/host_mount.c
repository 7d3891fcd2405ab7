#include "sandbox/host_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/state_dir.h"

#define STATE_BYTES_MAX 65536
#define MOUNTS_MAX 16
/* On some systems the C library's sys/mount.h and the kernel's linux/mount.h cannot be included together, so these are called by number. */
#define DETACH 2
#define NOFOLLOW 8

/* What a supervisor writes into its state file (wire/sandbox_spec.h). */
struct supervisor_state {
    char pid[16], mount[PATH_MAX];
};

static bool state_value(const char *line, const char *key, char *ret, size_t size)
{
    size_t len = strlen(key), value_len = strcspn(line, "\n");

    if (strncmp(line, key, len) != 0 || line[len] != ' ' || value_len - len - 1 >= size)
        return false;
    memcpy(ret, line + len + 1, value_len - len - 1);
    ret[value_len - len - 1] = '\0';
    return true;
}

static int read_state(int dir_fd, struct supervisor_state *ret, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autofd int fd = path_open_beneath(dir_fd, "state", O_RDONLY, 0);
    int r = fd < 0 ? fd : fd_read_all(fd, STATE_BYTES_MAX, &text);

    if (r < 0)
        return err_errno(err, r, "reading what the supervisor says of itself");
    buf_add_char(&text, '\0');
    *ret = (struct supervisor_state){ 0 };
    for (const char *line = text.data; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        state_value(line, "pid", ret->pid, sizeof(ret->pid));
        state_value(line, "mount", ret->mount, sizeof(ret->mount));
    }
    return *ret->pid && *ret->mount ? 0 : err_errno(err, -EPROTO, "the supervisor does not say where it mounts files");
}

struct showing {
    int their_ns, our_ns, at; /* borrowed; `at` is the directory to mount on */
    const char *from;         /* in their namespace */
    int r;
};

/* A mount can be cloned only in its own namespace, and attached only in the target namespace. Between the two steps the clone is in
 * neither. */
static int clone_and_attach(const struct showing *showing)
{
    autofd int tree = -1;

    /* setns() for a mount namespace needs a working directory that no other thread shares. */
    if (unshare(CLONE_FS) < 0 || setns(showing->their_ns, CLONE_NEWNS) < 0)
        return -errno;
    tree = (int) syscall(SYS_open_tree, AT_FDCWD, showing->from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    if (tree < 0 || setns(showing->our_ns, CLONE_NEWNS) < 0)
        return -errno;
    return syscall(SYS_move_mount, tree, "", showing->at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0 ? -errno
                                                                                                                     : 0;
}

static void *show_in_thread(void *cookie)
{
    struct showing *showing = cookie;

    showing->r = clone_and_attach(showing);
    return NULL;
}

static int open_namespace(const char *pid)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%s/ns/mnt", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* In a thread of its own: it ends in another namespace and working directory, in which no other work may run. */
static int show_from(const struct supervisor_state *state, int dir_fd, struct err *err)
{
    autofd int theirs = open_namespace(state->pid), ours = open_namespace("self"), at = -1;
    struct showing showing = { .their_ns = theirs, .our_ns = ours, .from = state->mount, .r = -EIO };
    pthread_t thread;
    int r = theirs < 0 ? theirs : ours < 0 ? ours : 0;

    /* The supervisor still lives, so the pid that we looked up was its own. */
    if (r == 0 && !sandbox_dir_is_running(dir_fd))
        r = -ESRCH;
    if (r == 0 && mkdirat(dir_fd, HOST_MOUNT_DIR, 0500) < 0 && errno != EEXIST)
        r = -errno;
    if (r == 0)
        r = at = path_open_beneath(dir_fd, HOST_MOUNT_DIR, O_PATH | O_DIRECTORY, 0);
    if (r >= 0) {
        showing.at = at;
        r = -pthread_create(&thread, NULL, show_in_thread, &showing);
    }
    if (r == 0) {
        pthread_join(thread, NULL);
        r = showing.r;
    }
    return r < 0 ? err_errno(err, r, "mounting the sandbox's files on the host") : 0;
}

int host_mount_show(int sandbox_dir_fd, struct err *err)
{
    autofree struct supervisor_state *state = xnew(struct supervisor_state);
    int r = read_state(sandbox_dir_fd, state, err);

    if (r == 0)
        r = show_from(state, sandbox_dir_fd, err);
    if (r < 0)
        host_mount_hide(sandbox_dir_fd);
    return r;
}

void host_mount_hide(int sandbox_dir_fd)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d/" HOST_MOUNT_DIR, sandbox_dir_fd);
    for (int i = 0; i < MOUNTS_MAX && syscall(SYS_umount2, path, DETACH | NOFOLLOW) == 0; i++)
        continue;
    /* Mode bits do not stop root from writing into the directory. Supervisors of other users mount on it. */
    if (geteuid() == 0)
        unlinkat(sandbox_dir_fd, HOST_MOUNT_DIR, AT_REMOVEDIR);
}

bool host_mount_is_shown(int sandbox_dir_fd)
{
    struct statx st;

    return statx(sandbox_dir_fd, HOST_MOUNT_DIR, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_TYPE, &st) ==
               0 &&
           (st.stx_attributes & st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT);
}
