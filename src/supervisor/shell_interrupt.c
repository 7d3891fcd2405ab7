#include "supervisor/shell_int.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "base/mem.h"

#define INTERRUPT_PAUSE_MS 20
#define INTERRUPT_STEP_MS 100
#define INTERRUPT_STEPS 32
#define PROBE_MS 100
#define PROBES 100

#define shell_of_barrier(t) ((struct shell *) ((char *) (t) -offsetof(struct shell, barrier)))

static void at_probe(void *cookie)
{
    struct shell *shell = cookie;

    if (shell->probe_count++ >= PROBES) {
        shell_close_down(shell, CTL_END_LOST, 0, "its shell does not come back");
        return;
    }
    shell_request_report_again(shell);
    timer_start(&shell->timer, &shell->sandbox->reactor, PROBE_MS, at_probe, shell);
}

static void on_barrier_up(struct task *task, int pty_fd)
{
    (void) task;
    if (pty_fd >= 0)
        close(pty_fd);
}

static void on_barrier(struct task *task, int error, enum init_step step)
{
    struct shell *shell = shell_of_barrier(task);

    (void) error;
    (void) step;
    if (shell->phase == SHELL_SETTLING)
        at_probe(shell);
}

static void on_barrier_exited(struct task *task, const struct init_report *report)
{
    (void) task;
    (void) report;
}

static void on_barrier_gone(struct task *task)
{
    (void) task;
}

static const struct task_ops barrier_ops = {
    .spawned = on_barrier_up,
    .failed = on_barrier,
    .exited = on_barrier_exited,
    .gone = on_barrier_gone,
};

static void at_settle_timeout(void *cookie)
{
    shell_close_down(cookie, CTL_END_LOST, 0, "its shell does not come back");
}

/* init handles requests in order. This one always fails, because "/" cannot be executed, and its failure proves that init
 * has handled all earlier ones. If init is too busy to be asked, asks again later. */
static void raise_barrier(void *cookie)
{
    static const char *const argv[] = { "/", NULL }, *const envp[] = { NULL };
    struct shell *shell = cookie;
    const int fds[] = { shell->text_fd, shell->text_fd, shell->text_fd };
    struct init_command nothing = { .cwd = "/", .argv = argv, .envp = envp, .fds = fds, .fd_count = ARRAY_LEN(fds) };
    struct init_spawn request = { .flags = INIT_SPAWN_SESSION };

    if (task_start(&shell->barrier, &shell->sandbox->link, &barrier_ops, &request, &nothing) == 0)
        timer_start(&shell->timer, &shell->sandbox->reactor, SHELL_ANSWER_MS, at_settle_timeout, shell);
    else if (shell->probe_count++ < PROBES)
        timer_start(&shell->timer, &shell->sandbox->reactor, PROBE_MS, raise_barrier, shell);
    else
        shell_close_down(shell, CTL_END_LOST, 0, "its shell cannot be waited for");
}

/* A signal that arrives after the command has ended would hit the shell in the middle of the next line, and that command
 * would never run. So we wait until init confirms that all signals were sent; a shell that answers after that has received
 * them. */
void shell_settle(struct shell *shell)
{
    shell->phase = SHELL_SETTLING;
    shell->probe_count = 0;
    shell_next_number(shell);
    /* A process that was just forked may have missed the interrupt, and the shell would wait for it. */
    task_kill(&shell->task, SIGKILL, INIT_KILL_BELOW, shell->since_ticks);
    exec_of_pid_set(&shell->sandbox->exec_of_pid, shell, shell->task.pid, "");
    raise_barrier(shell);
}

/*
 * Signals the shell first and its children after a pause: a shell whose child dies before the shell knows of the interrupt
 * continues with the next command of its list. Then alternates between signals and probes whether the shell is back. The two
 * must not coincide, because a signal makes the shell forget the line it was reading.
 */
static void interrupt_step(void *cookie)
{
    struct shell *shell = cookie;
    unsigned step = ++shell->interrupt_step;

    if (step > INTERRUPT_STEPS) {
        shell_close_down(shell, CTL_END_SIGNALED, SIGKILL, "its shell could not be interrupted");
        return;
    }
    if (step == 2)
        task_kill(&shell->task, SIGINT, INIT_KILL_BELOW, shell->since_ticks);
    else if (step % 2 == 0)
        shell_request_report_again(shell);
    else
        task_kill(&shell->task, SIGINT, INIT_KILL_MAIN, 0);
    if (step > 2 && step % 2)
        task_kill(&shell->task, SIGKILL, INIT_KILL_BELOW, shell->since_ticks);
    timer_start(&shell->timer, &shell->sandbox->reactor, step == 1 ? INTERRUPT_PAUSE_MS : INTERRUPT_STEP_MS, interrupt_step,
                shell);
}

void shell_interrupt(struct shell *shell)
{
    shell->interrupt_step = 0;
    shell->phase = SHELL_INTERRUPTING;
    interrupt_step(shell);
}
