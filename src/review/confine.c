#include "review/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/root_dir.h"

/* Missing in the headers of some distributions. */
#define ACCESS_REFER (UINT64_C(1) << 13)
#define ACCESS_TRUNCATE (UINT64_C(1) << 14)

/* The first version that lets a file be renamed to another directory, as git does with each object. */
#define ABI_MIN 2
#define ABI_TRUNCATE 3

#define ACCESS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define ACCESS_ALL                                                                                                             \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_READ | LANDLOCK_ACCESS_FS_REMOVE_DIR |                \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |                             \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |                               \
     LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM | ACCESS_REFER)

struct confined {
    const struct confine_bounds *bounds;
    confine_fn fn;
    void *cookie;
    struct err *err;
    int r;
};

static int allow_directory(int ruleset, int dir_fd, uint64_t access)
{
    struct landlock_path_beneath_attr rule = { .allowed_access = access, .parent_fd = dir_fd };

    return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

/* Restricts this thread alone, for its lifetime. */
static int restrict_thread(const struct confine_bounds *bounds)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    uint64_t all = ACCESS_ALL | (abi >= ABI_TRUNCATE ? ACCESS_TRUNCATE : 0);
    struct landlock_ruleset_attr attr = { .handled_access_fs = all };
    int r = 0;

    if (!bounds->roots || abi < ABI_MIN)
        return 0;
    autofd int ruleset = (int) syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (ruleset < 0)
        return -errno;
    for (const char *const *root = bounds->roots; r == 0 && *root; root++) {
        autodone(root_dir) struct root_dir dir = ROOT_DIR_NONE;

        if (root_dir_open(*root, &dir) == 0)
            r = allow_directory(ruleset, dir.fd, all);
    }
    if (r == 0 && bounds->read_fd >= 0)
        r = allow_directory(ruleset, bounds->read_fd, ACCESS_READ);
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = -errno;
    if (r == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        r = -errno;
    return r;
}

static void *run_confined_thread(void *cookie)
{
    struct confined *c = cookie;

    /* A raw system call: the C library's function would change all threads. */
    c->r = geteuid() == 0 && syscall(SYS_setgroups, 0, NULL) < 0 && errno != EPERM ? -errno : 0;
    if (c->r == 0)
        c->r = restrict_thread(c->bounds);
    if (c->r < 0)
        err_errno(c->err, c->r, "confining what is done for the repository");
    else
        c->r = c->fn(c->cookie, c->err);
    return NULL;
}

int confine_run(const struct confine_bounds *bounds, confine_fn fn, void *cookie, struct err *err)
{
    struct confined c = { .bounds = bounds, .fn = fn, .cookie = cookie, .err = err };
    pthread_t thread;
    int r = pthread_create(&thread, NULL, run_confined_thread, &c);

    if (r != 0)
        return err_errno(err, -r, "starting a thread");
    pthread_join(thread, NULL);
    return c.r;
}
