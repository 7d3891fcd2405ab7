#include "init/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * How a command is made. The new process shares our memory and we sleep until it execs or ends (CLONE_VM | CLONE_VFORK). That
 * avoids copying page tables, and the child can write the reason of a failure where we read it, without a pipe. It is sound
 * because there are no threads, all signals are blocked in us, and the two never run at once. The child has its own stack,
 * because we must not return into the frames it leaves. Descriptors and signal dispositions are copies.
 *
 * What init set at its start also holds for the child: default dispositions, no_new_privs, the umask.
 */

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
#define STACK_SIZE 32768

static _Alignas(16) char stack[STACK_SIZE];

static int enter_session(struct child *child)
{
    if (child->spawn->flags & (INIT_SPAWN_SESSION | INIT_SPAWN_TTY))
        return setsid() < 0 ? -errno : 0;
    return setpgid(0, 0) < 0 ? -errno : 0;
}

/* First moves descriptors away that occupy a target number. */
static int place_fds(struct child *child)
{
    int count = (int) child->fd_count, moved[INIT_SPAWN_FDS_MAX];

    for (int i = 0; i < count; i++) {
        moved[i] = child->fds[i] < count ? fcntl(child->fds[i], F_DUPFD_CLOEXEC, count) : child->fds[i];
        if (moved[i] < 0)
            return -errno;
    }
    for (int i = 0; i < count; i++)
        if (dup2(moved[i], i) < 0)
            return -errno;
    /* All descriptors here are CLOEXEC as well, so nothing leaks if the kernel or a filter lacks this call. */
    syscall(SYS_close_range, count, UINT_MAX, 0);
    return 0;
}

static int set_terminal(struct child *child)
{
    if (!(child->spawn->flags & INIT_SPAWN_TTY))
        return 0;
    return ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0 ? -errno : 0;
}

/* Before the user changes, because only init may be allowed to raise a hard limit. */
static int set_limits(struct child *child)
{
    for (uint32_t i = 0; i < child->spawn->rlimit_count; i++) {
        const struct init_rlimit *limit = &child->spawn->rlimits[i];
        const struct rlimit value = { .rlim_cur = limit->soft, .rlim_max = limit->hard };

        if (setrlimit((int) limit->resource, &value) < 0)
            return -errno;
    }
    return 0;
}

/* Groups first and the user last, because afterwards we lose the right. Without groups there is nothing to drop, which is
 * the only case that works in a user namespace that denies setgroups(). */
static int change_user(struct child *child)
{
    uint32_t uid = child->spawn->uid, gid = child->spawn->gid;

    if (!(child->spawn->flags & INIT_SPAWN_USER))
        return 0;
    if (syscall(SYS_getgroups, 0, NULL) != 0 && syscall(SYS_setgroups, 0, NULL) < 0)
        return -errno;
    /* Raw calls, because libc's synchronise other threads, which takes locks. */
    if (syscall(SYS_setresgid, gid, gid, gid) < 0 || syscall(SYS_setresuid, uid, uid, uid) < 0)
        return -errno;
    return 0;
}

/* After change_user(), because the command's user must be allowed to enter the directory. */
static int change_directory(struct child *child)
{
    return chdir(child->vectors.cwd) < 0 ? -errno : 0;
}

/* The command's PATH, not ours, as if the command started itself. */
static const char *path_variable(char *const *envp)
{
    for (; *envp; envp++)
        if (strncmp(*envp, "PATH=", 5) == 0)
            return *envp + 5;
    return DEFAULT_PATH;
}

/* Returns only on failure. */
static int execute_in(const struct child *child, const char *directory, size_t len)
{
    const char *name = child->vectors.argv[0];
    size_t name_len = strlen(name);
    char path[PATH_MAX];

    if (len + 1 + name_len >= sizeof(path))
        return -ENAMETOOLONG;
    memcpy(path, directory, len);
    path[len] = '/';
    memcpy(path + len + 1, name, name_len + 1);
    execve(path, child->vectors.argv, child->vectors.envp);
    return -errno;
}

/* Skips relative elements of PATH, as everywhere in this tree: an empty one means the working directory. Skips a file that
 * may not be executed like a missing one, but remembers it. */
static int execute_by_name(const struct child *child)
{
    int refused = 0;

    for (const char *at = path_variable(child->vectors.envp); *at;) {
        size_t len = strcspn(at, ":");
        int r = *at == '/' ? execute_in(child, at, len) : -ENOENT;

        if (r == -EACCES)
            refused = r;
        else if (r != -ENOENT && r != -ENOTDIR && r != -ENAMETOOLONG)
            return r;
        at += len + (at[len] == ':');
    }
    return refused < 0 ? refused : -ENOENT;
}

static int child_exec(struct child *child)
{
    const char *name = child->vectors.argv[0];
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (*name && !strchr(name, '/'))
        return execute_by_name(child);
    execve(name, child->vectors.argv, child->vectors.envp);
    return -errno;
}

static const struct {
    enum init_step step;
    int (*take)(struct child *child);
} steps[] = {
    { INIT_STEP_SESSION, enter_session }, { INIT_STEP_DESCRIPTORS, place_fds }, { INIT_STEP_TTY, set_terminal },
    { INIT_STEP_LIMITS, set_limits },     { INIT_STEP_USER, change_user },      { INIT_STEP_CWD, change_directory },
    { INIT_STEP_EXEC, child_exec },
};

static int child_main(void *arg)
{
    struct child *child = arg;

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        int r = steps[i].take(child);

        if (r < 0) {
            child->step = steps[i].step;
            child->error = -r;
            break;
        }
    }
    _exit(127);
}

pid_t child_start(struct child *child)
{
    pid_t pid = clone(child_main, stack + STACK_SIZE, CLONE_VM | CLONE_VFORK | SIGCHLD, child);

    if (pid < 0) {
        child->step = INIT_STEP_FORK;
        child->error = errno;
        return -child->error;
    }
    if (child->error == 0)
        return pid;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return -child->error;
}
