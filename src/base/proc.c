#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/proc_int.h"
#include "base/sanitized.h"

/*
 * How a child is made.
 *
 * It makes a dozen system calls before it execs, in our memory (see fork_child()). Another thread may hold any lock at that
 * moment, so between fork and exec there are only system calls on memory that was prepared before (struct proc_plan): no
 * malloc, no stdio, no strerror. proc_child.c holds this code.
 *
 * All signals are blocked across the fork, so that no handler of ours runs in the child before its dispositions are reset.
 *
 * A CLOEXEC pipe reports the outcome. exec closes it, which the parent reads as success; a failing step first writes its number
 * and errno. Its write end is the only descriptor that the child has in addition to the requested ones.
 */

#define PIPE_BYTES 65536
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

static const char *const step_texts[] = {
    [STEP_CGROUPS] = "joining its cgroup", [STEP_DESCRIPTORS] = "passing descriptors",
    [STEP_SESSION] = "making a session",   [STEP_LIMITS] = "setting limits",
    [STEP_USER] = "changing the user",     [STEP_DEATH_SIGNAL] = "tying it to its parent",
    [STEP_CWD] = "changing the directory", [STEP_EXEC] = "executing it",
};

static void plan_done(struct proc_plan *plan)
{
    buf_done(&plan->task);
    for (char **c = plan->candidates; c && *c; c++)
        free(*c);
    free(plan->candidates);
    free(plan->fds);
    free(plan->moved);
    free(plan->keep);
    cleanup_fd(&plan->null_fd);
}

static int by_target(const void *a, const void *b)
{
    const struct proc_fd *x = a, *y = b;

    return (x->target > y->target) - (x->target < y->target);
}

static bool has_target(const struct proc_plan *plan, int target)
{
    for (size_t i = 0; i < plan->fd_count; i++)
        if (plan->fds[i].target == target)
            return true;
    return false;
}

static int plan_fds(struct proc_plan *plan, struct err *err)
{
    const struct proc_spec *spec = plan->spec;

    plan->fds = xalloc((spec->fd_count + 3) * sizeof(*plan->fds));
    for (size_t i = 0; i < spec->fd_count; i++) {
        if (spec->fds[i].fd < 0 || spec->fds[i].target < 0 || has_target(plan, spec->fds[i].target))
            return err_invalid(err, "descriptor %d cannot be passed as %d", spec->fds[i].fd, spec->fds[i].target);
        plan->fds[plan->fd_count++] = spec->fds[i];
    }
    plan->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (plan->null_fd < 0)
        return err_errno(err, -errno, "opening '/dev/null'");
    for (int target = 0; target <= 2; target++)
        if (!has_target(plan, target))
            plan->fds[plan->fd_count++] = (struct proc_fd){ .fd = plan->null_fd, .target = target };
    qsort(plan->fds, plan->fd_count, sizeof(*plan->fds), by_target);
    plan->moved = xalloc(plan->fd_count * sizeof(int));
    plan->keep = xalloc((plan->fd_count + 2) * sizeof(int));
    return 0;
}

static const char *program_name(const struct proc_spec *spec)
{
    return spec->path ? spec->path : spec->argv[0];
}

/* Uses the child's PATH, so a name means the same as if the child started the program itself. */
static const char *path_variable(const char *const *envp)
{
    for (; envp && *envp; envp++)
        if (strncmp(*envp, "PATH=", 5) == 0)
            return *envp + 5;
    return DEFAULT_PATH;
}

/* Skips elements that are not absolute. An empty one means the working directory, which an attacker may control. */
static void plan_candidates(struct proc_plan *plan)
{
    const char *name = program_name(plan->spec);
    size_t count = 0, cap = 0;

    if (strchr(name, '/')) {
        vec_room(&plan->candidates, &cap, count);
        plan->candidates[count++] = xdup(name);
    } else if (*name) {
        for (const char *at = path_variable(plan->spec->envp); *at;) {
            size_t len = strcspn(at, ":");

            if (*at == '/') {
                vec_room(&plan->candidates, &cap, count);
                plan->candidates[count++] = xprintf("%.*s/%s", (int) len, at, name);
            }
            at += len + (at[len] == ':');
        }
    }
    vec_room(&plan->candidates, &cap, count);
    plan->candidates[count] = NULL;
}

#if defined(SANITIZED_ADDRESS) || defined(SANITIZED_THREAD)
/* The sanitizers' run-time does not support a child that shares our memory. */
static pid_t fork_child(struct proc_plan *plan)
{
    pid_t pid = fork();

    if (pid == 0)
        proc_child_run(plan);
    return pid < 0 ? -errno : pid;
}
#else
#define CHILD_STACK_BYTES 65536

static int child_main(void *arg)
{
    proc_child_run(arg);
}

/* The child shares our memory and has its own stack, and this thread waits until it execs. Nothing is copied; in a large
 * process copying would dominate the cost. The child writes only to `plan` and to its stack. Its descriptors, signal handlers
 * and working directory are copies, as with fork(). */
static pid_t fork_child(struct proc_plan *plan)
{
    char *stack = mmap(NULL, CHILD_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    pid_t pid;

    if (stack == MAP_FAILED)
        return -errno;
    pid = clone(child_main, stack + CHILD_STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, plan);
    if (pid < 0)
        pid = -errno;
    munmap(stack, CHILD_STACK_BYTES);
    return pid;
}
#endif

static pid_t fork_blocked(struct proc_plan *plan)
{
    sigset_t all, before;
    pid_t pid;

    /* No handler of ours may run in the child. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = fork_child(plan);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

static int proc_reap(pid_t pid, int *ret_status)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    *ret_status = status;
    return 0;
}

/* The pid cannot belong to another process, because we have not waited for it yet. Lack of descriptors is an error; a kernel or
 * filter without pidfds is not. */
static int open_pidfd(pid_t pid, int *ret_fd)
{
    long fd = syscall(SYS_pidfd_open, pid, 0);

    if (fd < 0 && err_errno_is_exhaustion(-errno))
        return -errno;
    *ret_fd = fd < 0 ? -1 : (int) fd;
    return 0;
}

/* Returns 0 if the program runs. */
static int read_outcome(const struct proc_plan *plan, int fd, struct err *err)
{
    struct proc_failure failure;
    ssize_t n = fd_read_full(fd, &failure, sizeof(failure));

    if (n < 0)
        return err_errno(err, (int) n, "%s", plan->task.data);
    if (n < (ssize_t) sizeof(failure))
        return 0;
    return err_errno(err, -failure.error, "%s: %s", plan->task.data, step_texts[failure.step]);
}

static int make_plan(struct proc_plan *plan, struct err *err)
{
    if (!plan->spec->argv || !plan->spec->argv[0])
        return err_invalid(err, "a program needs at least its own name as argument");
    buf_add_str(&plan->task, "starting '");
    buf_add_escaped(&plan->task, program_name(plan->spec), strlen(program_name(plan->spec)));
    buf_add_char(&plan->task, '\'');
    plan_candidates(plan);
    return plan_fds(plan, err);
}

static int proc_spawn_plan(struct proc_plan *plan, struct proc *ret, struct err *err)
{
    struct proc proc = PROC_NONE;
    int r, pipe_fds[2];

    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "%s", plan->task.data);
    autofd int read_end = pipe_fds[0], write_end = pipe_fds[1];

    plan->status_fd = write_end;
    proc.pid = fork_blocked(plan);
    if (proc.pid < 0)
        return err_errno(err, (int) proc.pid, "%s", plan->task.data);
    /* Our copy must be closed, or read_outcome() never sees the end of the pipe. */
    close(steal_fd(&write_end));
    r = read_outcome(plan, read_end, err);
    if (r == 0) {
        r = open_pidfd(proc.pid, &proc.pidfd);
        if (r < 0)
            err_errno(err, r, "%s", plan->task.data);
    }
    if (r < 0) {
        kill(proc.pid, SIGKILL);
        proc_reap(proc.pid, &proc.status);
        return r;
    }
    *ret = proc;
    return 0;
}

int proc_spawn(const struct proc_spec *spec, struct proc *ret, struct err *err)
{
    struct proc_plan plan = { .spec = spec, .null_fd = -1, .parent = getpid() };
    int r = make_plan(&plan, err);

    if (r == 0)
        r = proc_spawn_plan(&plan, ret, err);
    plan_done(&plan);
    return r;
}

int proc_wait(struct proc *proc, int *ret_status)
{
    if (!proc->reaped) {
        int r = proc_reap(proc->pid, &proc->status);

        if (r < 0)
            return r;
        proc->reaped = true;
    }
    *ret_status = proc->status;
    return 0;
}

/* Sleeps until the child ends or `left_ms` have passed. Without a pidfd it returns earlier, so that the caller polls. */
static void proc_sleep(const struct proc *proc, int left_ms)
{
    struct pollfd p = { .fd = proc->pidfd, .events = POLLIN };

    if (proc->pidfd >= 0)
        poll(&p, 1, left_ms);
    else
        poll(NULL, 0, left_ms < 5 ? left_ms : 5);
}

int proc_wait_timeout(struct proc *proc, int timeout_ms, int *ret_status)
{
    int64_t deadline_ns = clock_now_ns() + timeout_ms * CLOCK_NS_PER_MS;

    while (!proc->reaped) {
        int64_t left_ns = deadline_ns - clock_now_ns();
        pid_t pid = waitpid(proc->pid, &proc->status, WNOHANG);

        if (pid < 0 && errno != EINTR)
            return -errno;
        if (pid > 0)
            proc->reaped = true;
        else if (left_ns <= 0)
            return -ETIMEDOUT;
        else
            proc_sleep(proc, (int) ((left_ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS));
    }
    *ret_status = proc->status;
    return 0;
}

int proc_signal(struct proc *proc, int signal)
{
    if (proc->reaped || proc->pid <= 0)
        return -ESRCH;
    if (proc->pidfd >= 0 && syscall(SYS_pidfd_send_signal, proc->pidfd, signal, NULL, 0) == 0)
        return 0;
    if (proc->pidfd >= 0 && errno != ENOSYS)
        return -errno;
    /* The child was not waited for, so the pid is still its own. */
    return kill(proc->pid, signal) < 0 ? -errno : 0;
}

int proc_run(const struct proc_spec *spec, int timeout_ms, struct buf *out, int *ret_status, struct err *err)
{
    struct proc_spec child = *spec;
    struct proc proc = PROC_NONE;
    int pair[2], killed, r;

    if (pipe2(pair, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "making a pipe");
    autofd int ours = pair[0], theirs = pair[1];
    const struct proc_fd fds[] = { { theirs, STDOUT_FILENO } };
    if (out) {
        child.fds = fds;
        child.fd_count = ARRAY_LEN(fds);
    }
    r = proc_spawn(&child, &proc, err);
    if (r < 0)
        return r;
    close(steal_fd(&theirs));
    r = proc_wait_timeout(&proc, timeout_ms, ret_status);
    if (r < 0) {
        err_errno(err, r, "waiting for '%s' to end", program_name(spec));
        proc_signal(&proc, SIGKILL);
        proc_wait(&proc, &killed);
    }
    proc_done(&proc);
    /* A grandchild may hold the pipe open for ever, so only what the pipe contains now is read. */
    if (r == 0 && out && fd_set_nonblock(ours, true) == 0) {
        autofree char *text = xalloc(PIPE_BYTES);
        ssize_t n = read(ours, text, PIPE_BYTES);

        buf_add(out, text, n > 0 ? (size_t) n : 0);
    }
    return r;
}

size_t proc_read_file(pid_t pid, const char *file, char *text, size_t cap)
{
    char path[64];
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, file);
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : fd_read_full(fd, text, cap - 1);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t) n : 0;
}

int proc_open_signals(int one_more)
{
    sigset_t set;
    int fd;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGPIPE);
    if (one_more)
        sigaddset(&set, one_more);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigdelset(&set, SIGPIPE);
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

int proc_exit_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void proc_done(struct proc *proc)
{
    cleanup_fd(&proc->pidfd);
    *proc = PROC_NONE;
}
