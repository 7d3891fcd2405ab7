#include "init/hunt.h"

#include <errno.h>
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

/* Steps before a keeper that is stopped again and again is given up; steps during which a hunt hurries. */
#define STOPPED_STEPS_MAX 16
#define STEPS_MAX 100

/* Which processes of an exec a signal is for. */
struct quarry {
    const struct hunt *hunt;
    pid_t main_pid;       /* 0: not known */
    pid_t spared;         /* the main process, or 0 */
    uint64_t since_ticks; /* those that started earlier are spared too */
};

static enum sweep_verdict judge(pid_t pid, void *cookie)
{
    const struct quarry *quarry = cookie;

    if (exec_by_keeper(quarry->hunt->table, pid))
        return SWEEP_LEAVE_OUT;
    if (pid == quarry->spared)
        return SWEEP_PASS_OVER;
    /* What an older process starts is its own: a server in the background goes on forking for whoever calls it. */
    if (quarry->since_ticks > 0 && sweep_start_ticks(quarry->hunt->proc_fd, pid) < quarry->since_ticks)
        return pid == quarry->main_pid ? SWEEP_PASS_OVER : SWEEP_LEAVE_OUT;
    return SWEEP_SIGNAL;
}

/* How many processes of the exec there are, as far as can be seen. */
static int signal_tree(struct quarry *quarry, const struct exec *exec, int signal, enum sweep_order order)
{
    int proc_fd = quarry->hunt->proc_fd;
    pid_t main_pid = exec_main_pid(exec);

    if (proc_fd >= 0)
        return sweep_below(proc_fd, exec->orphaned ? getpid() : exec->keeper, signal, order, judge, quarry);
    if (main_pid > 0 && quarry->spared == 0 && quarry->since_ticks == 0)
        kill(-main_pid, signal);
    return 0;
}

/* The state is asked after the descriptor is there: if the main process was not waited for by then, it is the one we hold. */
static void signal_main(const struct exec *exec, int signal)
{
    pid_t pid = exec_main_pid(exec);
    autofd int fd = pid > 0 ? (int) syscall(SYS_pidfd_open, pid, 0) : -1;

    if (pid <= 0 || exec_state(exec) != BOARD_RUNNING || exec->orphaned)
        return;
    if (fd < 0 || syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) < 0)
        kill(pid, signal);
}

/* True: the command has no process yet, and its keeper will send the signal (board.h). */
static bool leave_to_keeper(const struct exec *exec, int signal)
{
    if (exec->orphaned || exec_state(exec) != BOARD_STARTING)
        return false;
    atomic_store(&exec->board->signal, signal);
    /* The keeper may have looked just before. Then the signal is still there, and ours to send. */
    return exec_state(exec) == BOARD_STARTING || atomic_exchange(&exec->board->signal, 0) == 0;
}

void hunt_begin(struct exec *exec)
{
    if (exec->hunted)
        return;
    exec->hunted = true;
    exec->hunt_step_count = 0;
    exec->hunt_empty_count = 0;
    exec->hunt_next_ms = 0;
}

void hunt_kill(const struct hunt *hunt, struct exec *exec, const struct init_request *request)
{
    struct quarry quarry = { .hunt = hunt, .since_ticks = request->kill.since_ticks };
    enum init_kill_scope scope = request->kill.scope;
    int signal = request->kill.signal;

    if (scope == INIT_KILL_TREE && signal == SIGKILL) {
        hunt_begin(exec);
        return;
    }
    if (scope != INIT_KILL_BELOW && leave_to_keeper(exec, signal))
        return;
    quarry.main_pid = exec_main_pid(exec);
    if (scope == INIT_KILL_BELOW)
        quarry.spared = quarry.main_pid;
    if (scope == INIT_KILL_MAIN)
        signal_main(exec, signal);
    else if (scope == INIT_KILL_TREE || quarry.spared > 0)
        signal_tree(&quarry, exec, signal, SWEEP_TOGETHER);
}

/* Short at first, when most of it happens. What still lives after a hundred steps waits in the kernel, and so do we. */
static int64_t pause_ms(uint32_t step_count)
{
    if (step_count > STEPS_MAX)
        return 1000;
    return (int64_t) 1 << (step_count < 6 ? step_count : 6);
}

struct living {
    const struct hunt *hunt;
    size_t count;
};

static enum sweep_verdict count_living(pid_t pid, void *cookie)
{
    struct living *living = cookie;

    if (!sweep_is_ended(living->hunt->proc_fd, pid))
        living->count++;
    return SWEEP_PASS_OVER;
}

/* A stopped keeper waits for nobody, so all that was killed below it is still there, ended. */
static bool has_living(const struct hunt *hunt, const struct exec *exec)
{
    struct living living = { .hunt = hunt };

    sweep_below(hunt->proc_fd, exec->keeper, 0, SWEEP_TOGETHER, count_living, &living);
    return living.count > 0;
}

/* A process with our uid may stop a keeper, and stop it again before SIGCONT lets it run. When everything below such a keeper has
 * ended, init kills the keeper and reports the end itself. */
static void free_keeper(const struct hunt *hunt, const struct exec *exec)
{
    if (exec->hunt_step_count > STOPPED_STEPS_MAX && hunt->proc_fd >= 0 && sweep_is_stopped(hunt->proc_fd, exec->keeper) &&
        !has_living(hunt, exec))
        kill(exec->keeper, SIGKILL);
    else
        kill(exec->keeper, SIGCONT);
}

static int stop_and_kill(const struct hunt *hunt, const struct exec *exec)
{
    struct quarry all = { .hunt = hunt };

    signal_tree(&all, exec, SIGSTOP, SWEEP_AT_ONCE);
    return signal_tree(&all, exec, SIGKILL, SWEEP_TOGETHER);
}

static void note_step(const struct hunt *hunt, struct exec *exec, int found, int64_t now_ms)
{
    exec->hunt_empty_count = found == 0 ? exec->hunt_empty_count + 1 : 0;
    exec->hunt_next_ms = now_ms + pause_ms(exec->hunt_step_count++);
    /* Blind, and the number of the group may become another's. */
    if (hunt->proc_fd < 0 && !exec->orphaned && exec->hunt_step_count > STEPS_MAX)
        exec->hunted = false;
}

/* Orphaned execs have the same quarry: one sweep, `orphans_found`, does for all of them. */
static void step(const struct hunt *hunt, struct exec *exec, int64_t now_ms, int *orphans_found)
{
    int found;

    if (!exec->orphaned) {
        free_keeper(hunt, exec);
        found = stop_and_kill(hunt, exec);
    } else {
        if (*orphans_found < 0)
            *orphans_found = stop_and_kill(hunt, exec);
        found = *orphans_found;
    }
    note_step(hunt, exec, found, now_ms);
}

int hunt_go_on(const struct hunt *hunt, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;
    int orphans_found = -1;

    for (size_t i = 0; i < hunt->table->used; i++) {
        struct exec *exec = &hunt->table->execs[i];

        if (exec->id == 0 || !exec->hunted || hunt_is_over(exec))
            continue;
        if (exec->hunt_next_ms <= now_ms)
            step(hunt, exec, now_ms, &orphans_found);
        if (exec->hunt_next_ms < next_ms)
            next_ms = exec->hunt_next_ms;
    }
    return next_ms == INT64_MAX ? -1 : (int) (next_ms - now_ms);
}

/* Not after the first empty sweep: a list of children may lack one while others end. */
bool hunt_is_over(const struct exec *exec)
{
    return exec->orphaned && exec->hunt_empty_count > 1;
}
