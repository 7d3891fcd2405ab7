/* Runs between fork and exec: system calls only (see proc.c). Each function returns 0 or -errno. */
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/coverage.h"
#include "base/fd.h"
#include "base/proc_int.h"

static void reset_signals(void)
{
    /* libc does not let programs set its own two signals (32, 33). If our parent ignored them, no thread of ours could ever be
     * cancelled, so this calls the kernel directly. All zero is SIG_DFL on every architecture. SIGKILL and SIGSTOP fail, which
     * does no harm. */
    static const char all_zero[64];

    for (int signal = 1; signal < NSIG; signal++)
        syscall(SYS_rt_sigaction, signal, all_zero, NULL, (NSIG - 1) / 8);
}

/* Moves all descriptors above the highest target first, so that no dup2() overwrites one that is still needed. */
static int move_fds(struct proc_plan *plan)
{
    int lowest = plan->fds[plan->fd_count - 1].target + 1, fd;

    fd = fd_move_above(plan->status_fd, lowest);
    if (fd < 0)
        return fd;
    plan->status_fd = fd;
    for (size_t i = 0; i < plan->fd_count; i++) {
        plan->moved[i] = fd_move_above(plan->fds[i].fd, lowest);
        if (plan->moved[i] < 0)
            return plan->moved[i];
    }
    return 0;
}

static int place_fds(struct proc_plan *plan)
{
    size_t kept = 0;
    int r;

    r = move_fds(plan);
    if (r < 0)
        return r;
    for (size_t i = 0; i < plan->fd_count; i++) {
        if (dup2(plan->moved[i], plan->fds[i].target) < 0)
            return -errno;
        plan->keep[kept++] = plan->fds[i].target;
    }
    /* Ascending: move_fds() duplicated the status descriptor first. */
    plan->keep[kept++] = plan->status_fd;
    return fd_close_all_but(plan->keep, kept);
}

/* Comes first: the cgroup files are still open, and the caller's user has the permission to write them. */
static int join_cgroups(const struct proc_spec *spec)
{
    for (size_t i = 0; i < spec->join_count; i++)
        if (write(spec->joins[i], "0", 1) < 0)
            return -errno;
    return 0;
}

static int enter_session(const struct proc_spec *spec)
{
    if (spec->new_session)
        return setsid() < 0 ? -errno : 0;
    if (spec->new_group)
        return setpgid(0, 0) < 0 ? -errno : 0;
    return 0;
}

static int set_limits(const struct proc_spec *spec)
{
    for (size_t i = 0; i < spec->rlimit_count; i++)
        if (setrlimit(spec->rlimits[i].resource, &spec->rlimits[i].limit) < 0)
            return -errno;
    return 0;
}

/* Raw system calls: libc's functions change all threads and take locks to do so. Groups come first and the user last, because
 * afterwards the permission is gone. */
static int change_user(const struct proc_user *user)
{
    if (!user)
        return 0;
    if (syscall(SYS_setgroups, user->group_count, user->groups) < 0 ||
        syscall(SYS_setresgid, user->gid, user->gid, user->gid) < 0 ||
        syscall(SYS_setresuid, user->uid, user->uid, user->uid) < 0)
        return -errno;
    return 0;
}

/* Must follow change_user(), which clears the death signal. The getppid() check covers a parent that died before prctl(). */
static int follow_parent(const struct proc_plan *plan)
{
    if (plan->spec->death_signal == 0)
        return 0;
    if (prctl(PR_SET_PDEATHSIG, plan->spec->death_signal) < 0)
        return -errno;
    return getppid() == plan->parent ? 0 : -ESRCH;
}

/* Must follow change_user(): the new user needs permission to enter the directory. */
static int change_directory(const struct proc_plan *plan)
{
    return plan->spec->cwd && chdir(plan->spec->cwd) < 0 ? -errno : 0;
}

/* Returns only on failure. Skips a candidate without execute permission like a missing one, but reports it if no other runs. */
static int proc_child_exec(const struct proc_plan *plan)
{
    static char *const empty[] = { NULL };
    char *const *envp = plan->spec->envp ? (char *const *) plan->spec->envp : empty;
    int r = -ENOENT, refused = 0;

    for (char **path = plan->candidates; *path; path++) {
        coverage_execve(*path, (char *const *) plan->spec->argv, envp);
        r = -errno;
        if (r == -EACCES)
            refused = r;
        else if (r != -ENOENT && r != -ENOTDIR)
            return r;
    }
    return refused ? refused : r;
}

static struct proc_failure proc_child_prepare(struct proc_plan *plan)
{
    sigset_t none;
    int r;

    reset_signals();
    if ((r = join_cgroups(plan->spec)) < 0)
        return (struct proc_failure){ STEP_CGROUPS, -r };
    if ((r = place_fds(plan)) < 0)
        return (struct proc_failure){ STEP_DESCRIPTORS, -r };
    if ((r = enter_session(plan->spec)) < 0)
        return (struct proc_failure){ STEP_SESSION, -r };
    if ((r = set_limits(plan->spec)) < 0)
        return (struct proc_failure){ STEP_LIMITS, -r };
    if ((r = change_user(plan->spec->user)) < 0)
        return (struct proc_failure){ STEP_USER, -r };
    if ((r = follow_parent(plan)) < 0)
        return (struct proc_failure){ STEP_DEATH_SIGNAL, -r };
    if ((r = change_directory(plan)) < 0)
        return (struct proc_failure){ STEP_CWD, -r };
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    r = proc_child_exec(plan);
    return (struct proc_failure){ STEP_EXEC, -r };
}

_Noreturn void proc_child_run(struct proc_plan *plan)
{
    struct proc_failure failure = proc_child_prepare(plan);

    fd_write_full(plan->status_fd, &failure, sizeof(failure));
    _exit(127);
}
