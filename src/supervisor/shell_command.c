#include "supervisor/shell_int.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
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
static void shell_settle(struct shell *shell)
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

/* Stops the current command as Ctrl-C would, and by force if that is not enough. */
static void shell_interrupt(struct shell *shell)
{
    shell->interrupt_step = 0;
    shell->phase = SHELL_INTERRUPTING;
    interrupt_step(shell);
}

#define command_of_run(r) ((struct shell_command *) ((char *) (r) -offsetof(struct shell_command, run)))

void shell_end_command(struct shell_command *command, enum ctl_end end, int status, uint32_t flags, const char *text)
{
    struct ctl_finished result = { .end = end, .status = status, .flags = flags };

    snprintf(result.text, sizeof(result.text), "%s", text);
    command->shell = NULL;
    command->run.is_alive = false;
    run_end(&command->run, &result);
}

/* The command's output is in the pipes before the shell reports its end. For a slow client the run keeps it, as much as a
 * pipe holds. */
void shell_finish_current(struct shell *shell, int status)
{
    struct shell_command *command = shell->current;
    bool timed_out = shell->timed_out, was_interrupted = shell->phase == SHELL_INTERRUPTING;

    for (int i = 0; i < 2; i++)
        pipe_reader_drain_all(&shell->readers[i]);
    shell->current = NULL;
    for (int i = 0; i < 2; i++)
        pipe_reader_resume(&shell->readers[i]);
    shell_end_command(command, timed_out ? CTL_END_TIMED_OUT : CTL_END_EXITED, status, 0, "");
    if (was_interrupted)
        shell_settle(shell);
    else
        shell_become_idle(shell);
}

static uint64_t ticks_now(void)
{
    struct timespec t;
    uint64_t hz = (uint64_t) sysconf(_SC_CLK_TCK);

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t) t.tv_sec * hz + (uint64_t) t.tv_nsec * hz / (uint64_t) CLOCK_NS_PER_SEC;
}

static int write_text(struct shell *shell, const char *command)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r;

    shell_proto_add_text(&text, command, strlen(command));
    r = fd_pwrite_full(shell->text_fd, text.data, text.len, 0);
    return r == 0 && ftruncate(shell->text_fd, (off_t) text.len) < 0 ? -errno : r;
}

static void at_command_timeout(void *cookie)
{
    struct shell *shell = cookie;

    shell->timed_out = true;
    shell_interrupt(shell);
}

void shell_begin_next(struct shell *shell)
{
    struct shell_command *command = shell->queue;
    int r;

    if (!command || shell->phase != SHELL_IDLE)
        return;
    shell->queue = command->next;
    shell->current = command;
    shell->phase = SHELL_BUSY;
    shell->since_ticks = ticks_now();
    timer_stop(&shell->timer);
    /* Registered before the shell can write anything that belongs to the command. */
    exec_of_pid_set(&shell->sandbox->exec_of_pid, shell, shell->task.pid, command->run.name);
    run_started(&command->run, 0, -1, command->text);
    shell_next_number(shell);
    r = write_text(shell, command->text);
    if (r == 0)
        r = shell_stdin_write_line(&shell->shell_stdin, shell->shell_proto->run_line);
    if (r == 0)
        r = shell_request_report(shell);
    /* A shell that has ended, perhaps by this very command, is reported by its task. */
    if (r < 0 && r != -EPIPE) {
        shell_close_down(shell, CTL_END_LOST, 0, "its shell does not listen");
        return;
    }
    if (command->timeout_ms)
        timer_start(&shell->timer, &shell->sandbox->reactor, command->timeout_ms, at_command_timeout, shell);
}

static void shell_command_unqueue(struct shell_command *command)
{
    struct shell_command **slot = &command->shell->queue;

    while (*slot && *slot != command)
        slot = &(*slot)->next;
    if (*slot)
        *slot = command->next;
}

/* A command of a session is always stopped as by Ctrl-C, whichever signal was requested, because the session goes on. */
static void kill_run(struct run *run, int signal, enum ctl_kill_scope scope)
{
    struct shell_command *command = command_of_run(run);
    struct shell *shell = command->shell;

    (void) scope;
    if (!shell)
        return;
    if (shell->current != command) {
        shell_command_unqueue(command);
        shell_end_command(command, CTL_END_SIGNALED, signal, 0, "");
    } else if (shell->phase == SHELL_BUSY) {
        shell_interrupt(shell);
    }
}

static void resume_run(struct run *run)
{
    struct shell_command *command = command_of_run(run);

    for (int i = 0; command->shell && command->shell->current == command && i < 2; i++)
        pipe_reader_resume(&command->shell->readers[i]);
}

static void drop_run(struct run *run)
{
    struct shell_command *command = command_of_run(run);

    run_done(run);
    free(command->text);
    free(command);
}

static const struct run_ops run_ops = { .kill = kill_run, .resume = resume_run, .drop = drop_run };

int shell_run(struct sandbox *sandbox, struct client *client, uint64_t tag, const struct ctl_run *asked,
              const struct ctl_command *wanted, struct err *err)
{
    struct shell *shell = shell_find(sandbox, wanted->session);
    struct shell_command *command, **last;
    int r;

    if (!shell)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no session '%s'", wanted->session);
    command = xnew(struct shell_command);
    r = run_init(&command->run, sandbox, &run_ops, client, tag, asked, wanted->name);
    if (r < 0) {
        free(command);
        return err_set(err, ERR_ALREADY_EXISTS, r, "there is a command named '%s' already", wanted->name);
    }
    command->shell = shell;
    command->timeout_ms = asked->timeout_ms;
    command->text = xdup(wanted->argv[0]);
    for (last = &shell->queue; *last; last = &(*last)->next)
        ;
    *last = command;
    shell_begin_next(shell);
    return 0;
}
