#include "init/kill_tree.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "init/sweep.h"

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* Steps after which a reaper that keeps being stopped is killed, and steps after which a kill slows down. */
#define STOPPED_STEPS_MAX 16
#define STEPS_MAX 100

/* The processes of an exec that a signal is for. */
struct kill_target {
    const struct kill_tree *kill_tree;
    pid_t main_pid;       /* 0: unknown */
    pid_t spared;         /* the main process, or 0 */
    uint64_t since_ticks; /* processes that started earlier are spared too */
};

static enum sweep_verdict kill_tree_verdict(pid_t pid, void *cookie)
{
    const struct kill_target *target = cookie;

    if (exec_by_reaper(target->kill_tree->table, pid))
        return SWEEP_LEAVE_OUT;
    if (pid == target->spared)
        return SWEEP_PASS_OVER;
    /* The children of an older process are its own: a background server goes on forking for its callers. */
    if (target->since_ticks > 0 && sweep_start_ticks(target->kill_tree->proc_fd, pid) < target->since_ticks)
        return pid == target->main_pid ? SWEEP_PASS_OVER : SWEEP_LEAVE_OUT;
    return SWEEP_SIGNAL;
}

/* Returns the number of processes of the exec that were found. */
static int signal_tree(struct kill_target *target, const struct exec *exec, int signal, enum sweep_order order)
{
    int proc_fd = target->kill_tree->proc_fd;
    pid_t main_pid = exec_main_pid(exec);

    if (proc_fd >= 0)
        return sweep_below(proc_fd, exec->orphaned ? getpid() : exec->reaper, signal, order, kill_tree_verdict, target);
    if (main_pid > 0 && target->spared == 0 && target->since_ticks == 0)
        kill(-main_pid, signal);
    return 0;
}

/* Reads the phase after opening the pidfd: if the main process was not waited for by then, the pidfd is its own. */
static void signal_main(const struct exec *exec, int signal)
{
    pid_t pid = exec_main_pid(exec);
    autofd int fd = pid > 0 ? (int) syscall(SYS_pidfd_open, pid, 0) : -1;

    if (pid <= 0 || exec_phase(exec) != EXEC_RUNNING || exec->orphaned)
        return;
    if (fd < 0 || syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) < 0)
        kill(pid, signal);
}

/* Returns true if the command has no process yet, so that its reaper will send the signal (exec_state.h). */
static bool leave_to_reaper(const struct exec *exec, int signal)
{
    if (exec->orphaned || exec_phase(exec) != EXEC_STARTING)
        return false;
    atomic_store(&exec->state->signal, signal);
    /* If the reaper has just looked for it, the signal is still there and we must send it. */
    return exec_phase(exec) == EXEC_STARTING || atomic_exchange(&exec->state->signal, 0) == 0;
}

void kill_tree_begin(struct exec *exec)
{
    if (exec->is_killing)
        return;
    exec->is_killing = true;
    exec->kill_step_count = 0;
    exec->kill_empty_count = 0;
    exec->kill_next_ms = 0;
}

void kill_tree_handle_kill(const struct kill_tree *kill_tree, struct exec *exec, const struct init_request *request)
{
    struct kill_target target = { .kill_tree = kill_tree, .since_ticks = request->kill.since_ticks };
    enum init_kill_scope scope = request->kill.scope;
    int signal = request->kill.signal;

    if (scope == INIT_KILL_TREE && signal == SIGKILL) {
        kill_tree_begin(exec);
        return;
    }
    if (scope != INIT_KILL_BELOW && leave_to_reaper(exec, signal))
        return;
    target.main_pid = exec_main_pid(exec);
    if (scope == INIT_KILL_BELOW)
        target.spared = target.main_pid;
    if (scope == INIT_KILL_MAIN)
        signal_main(exec, signal);
    else if (scope == INIT_KILL_TREE || target.spared > 0)
        signal_tree(&target, exec, signal, SWEEP_TOGETHER);
}

/* Short at first, when most processes end. After a hundred steps, the rest waits in the kernel, and we check rarely. */
static int64_t pause_ms(uint32_t step_count)
{
    if (step_count > STEPS_MAX)
        return 1000;
    return (int64_t) 1 << (step_count < 6 ? step_count : 6);
}

struct living {
    const struct kill_tree *kill_tree;
    size_t count;
};

static enum sweep_verdict count_living(pid_t pid, void *cookie)
{
    struct living *living = cookie;

    if (!sweep_is_ended(living->kill_tree->proc_fd, pid))
        living->count++;
    return SWEEP_PASS_OVER;
}

/* A stopped reaper reaps nothing, so the killed processes below it are still there as zombies. */
static bool has_living(const struct kill_tree *kill_tree, const struct exec *exec)
{
    struct living living = { .kill_tree = kill_tree };

    sweep_below(kill_tree->proc_fd, exec->reaper, 0, SWEEP_TOGETHER, count_living, &living);
    return living.count > 0;
}

/* A process with our uid may stop a reaper, and stop it again before SIGCONT lets it run. When everything below such a reaper has
 * ended, init kills the reaper and reports the end itself. */
static void continue_reaper(const struct kill_tree *kill_tree, const struct exec *exec)
{
    if (exec->kill_step_count > STOPPED_STEPS_MAX && kill_tree->proc_fd >= 0 &&
        sweep_is_stopped(kill_tree->proc_fd, exec->reaper) && !has_living(kill_tree, exec))
        kill(exec->reaper, SIGKILL);
    else
        kill(exec->reaper, SIGCONT);
}

static int stop_and_kill(const struct kill_tree *kill_tree, const struct exec *exec)
{
    struct kill_target all = { .kill_tree = kill_tree };

    signal_tree(&all, exec, SIGSTOP, SWEEP_AT_ONCE);
    return signal_tree(&all, exec, SIGKILL, SWEEP_TOGETHER);
}

static void note_step(const struct kill_tree *kill_tree, struct exec *exec, int found, int64_t now_ms)
{
    exec->kill_empty_count = found == 0 ? exec->kill_empty_count + 1 : 0;
    exec->kill_next_ms = now_ms + pause_ms(exec->kill_step_count++);
    /* Without /proc we cannot see the processes, and the group's number may be reused. */
    if (kill_tree->proc_fd < 0 && !exec->orphaned && exec->kill_step_count > STEPS_MAX)
        exec->is_killing = false;
}

/* Orphaned execs share their targets, so one sweep, `orphans_found`, serves all of them. */
static void kill_tree_step(const struct kill_tree *kill_tree, struct exec *exec, int64_t now_ms, int *orphans_found)
{
    int found;

    if (!exec->orphaned) {
        continue_reaper(kill_tree, exec);
        found = stop_and_kill(kill_tree, exec);
    } else {
        if (*orphans_found < 0)
            *orphans_found = stop_and_kill(kill_tree, exec);
        found = *orphans_found;
    }
    note_step(kill_tree, exec, found, now_ms);
}

int kill_tree_continue(const struct kill_tree *kill_tree, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;
    int orphans_found = -1;

    for (size_t i = 0; i < kill_tree->table->used; i++) {
        struct exec *exec = &kill_tree->table->execs[i];

        if (exec->id == 0 || !exec->is_killing || kill_tree_is_done(exec))
            continue;
        if (exec->kill_next_ms <= now_ms)
            kill_tree_step(kill_tree, exec, now_ms, &orphans_found);
        if (exec->kill_next_ms < next_ms)
            next_ms = exec->kill_next_ms;
    }
    return next_ms == INT64_MAX ? -1 : (int) (next_ms - now_ms);
}

/* Needs two empty sweeps: a list of children may miss one while others end. */
bool kill_tree_is_done(const struct exec *exec)
{
    return exec->orphaned && exec->kill_empty_count > 1;
}
