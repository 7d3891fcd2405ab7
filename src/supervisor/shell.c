#include "supervisor/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "runtime/runtime_spec.h"
#include "supervisor/client.h"
#include "supervisor/dialect.h"
#include "supervisor/environment.h"
#include "supervisor/sandbox.h"
#include "supervisor/script.h"
#include "supervisor/tap.h"

#define OPEN_MS 10000
#define INTERRUPT_PAUSE_MS 20
#define INTERRUPT_STEP_MS 100
#define INTERRUPT_STEPS 32
#define PROBE_MS 100
#define PROBES 100
#define CHANNEL_LINE_MAX 64

enum shell_phase { SHELL_OPENING, SHELL_IDLE, SHELL_BUSY, SHELL_INTERRUPTING, SHELL_SETTLING, SHELL_CLOSED };

/* A command given to a session. */
struct line {
    struct run run;
    struct shell *shell; /* NULL: it has left it */
    struct line *next;   /* of the shell's queue */
    uint32_t timeout_ms;
    char *text; /* owned */
};

#define line_of_run(r) ((struct line *) ((char *) (r) -offsetof(struct line, run)))

struct shell {
    struct sandbox *sandbox;
    struct shell *next, **slot;
    char name[CTL_NAME_MAX];
    const struct dialect *dialect;
    enum shell_phase phase;
    struct task task;
    struct task barrier; /* see raise_barrier() */
    struct tap taps[2];
    struct tap channel;
    char heard[CHANNEL_LINE_MAX];
    size_t heard_len;
    struct script script; /* its standard input */
    int text_fd;          /* owned: the memory file */
    unsigned long long number;
    unsigned attempt; /* how often it was asked to say the number */
    struct line *current, *queue;
    uint64_t since_ticks; /* when the current one began */
    bool timed_out;
    unsigned interrupt_step, probe_count;
    struct timer timer; /* of the phase: opening, idle, the command's, the interrupt's, the probe's */
    uint32_t idle_ms;
    int64_t began_ns;
    struct client *opener; /* who waits for it to open */
    uint64_t opener_tag;
};

#define shell_of_task(t) ((struct shell *) ((char *) (t) -offsetof(struct shell, task)))
#define shell_of_barrier(t) ((struct shell *) ((char *) (t) -offsetof(struct shell, barrier)))

static void begin_next(struct shell *shell);
static void interrupt(struct shell *shell);
static void settle(struct shell *shell);

static struct shell *find(struct sandbox *sandbox, const char *name)
{
    for (struct shell *shell = sandbox->shells; shell; shell = shell->next) {
        if (shell->phase != SHELL_CLOSED && strcmp(shell->name, name) == 0)
            return shell;
    }
    return NULL;
}

static void shell_free(struct shell *shell)
{
    timer_stop(&shell->timer);
    for (int i = 0; i < 2; i++)
        tap_close(&shell->taps[i]);
    tap_close(&shell->channel);
    task_forget(&shell->task);
    task_forget(&shell->barrier);
    roster_remove(&shell->sandbox->roster, shell);
    script_close(&shell->script);
    if (shell->text_fd >= 0)
        close(shell->text_fd);
    *shell->slot = shell->next;
    if (shell->next)
        shell->next->slot = shell->slot;
    shell->sandbox->shell_count--;
    free(shell);
}

/* Answers whoever waits for the session to open. */
static void tell_opener(struct shell *shell, const char *problem)
{
    struct ctl_reply reply = { .type = problem ? CTL_REPLY_ERROR : CTL_REPLY_OK, .tag = shell->opener_tag };

    if (!shell->opener)
        return;
    if (problem) {
        reply.error.code = ERR_FAILED_PRECONDITION;
        snprintf(reply.error.text, sizeof(reply.error.text), "%s", problem);
    } else {
        memcpy(reply.ok.name, shell->name, sizeof(shell->name));
    }
    client_reply(shell->opener, &reply, -1);
    shell->opener = NULL;
}

static void end_line(struct line *line, enum ctl_end end, int status, uint32_t flags, const char *text)
{
    struct ctl_finished result = { .end = end, .status = status, .flags = flags };

    snprintf(result.text, sizeof(result.text), "%s", text);
    line->shell = NULL;
    line->run.is_alive = false;
    run_end(&line->run, &result);
}

/* No more commands; what is queued is told so. The shell itself may still have processes. */
static void close_down(struct shell *shell, enum ctl_end end, int status, const char *why)
{
    struct line *line = shell->current;

    if (shell->phase == SHELL_CLOSED)
        return;
    timer_stop(&shell->timer);
    if (shell->phase == SHELL_OPENING)
        tell_opener(shell, why);
    else
        chronicle_add(&shell->sandbox->chronicle, &(struct ctl_event){
                                                      .kind = CTL_EVENT_SESSION_CLOSED,
                                                      .subject = shell->name,
                                                      .detail = why,
                                                      .numbers = { (clock_now_ns() - shell->began_ns) / 1000 },
                                                  });
    shell->phase = SHELL_CLOSED;
    task_kill(&shell->task, SIGKILL, INIT_KILL_TREE, 0);
    if (line) {
        for (int i = 0; i < 2; i++)
            tap_empty(&shell->taps[i]);
        shell->current = NULL;
        end_line(line, shell->timed_out ? CTL_END_TIMED_OUT : end, status, CTL_FINISHED_SESSION_CLOSED, "");
    }
    while ((line = shell->queue)) {
        shell->queue = line->next;
        end_line(line, CTL_END_SESSION, 0, CTL_FINISHED_SESSION_CLOSED, why);
    }
}

static bool take_output(struct shell *shell, unsigned stream, const void *bytes, size_t len)
{
    return shell->current ? run_take_output(&shell->current->run, stream, bytes, len) : true;
}

static bool take_out(const void *bytes, size_t len, void *cookie)
{
    return take_output(cookie, 0, bytes, len);
}

static bool take_err(const void *bytes, size_t len, void *cookie)
{
    return take_output(cookie, 1, bytes, len);
}

static void at_pipe_end(void *cookie)
{
    (void) cookie;
}

static void at_idle_end(void *cookie)
{
    close_down(cookie, CTL_END_SESSION, 0, "it was idle for too long");
}

static void become_idle(struct shell *shell)
{
    shell->phase = SHELL_IDLE;
    shell->timed_out = false;
    timer_stop(&shell->timer);
    roster_set(&shell->sandbox->roster, shell, shell->task.pid, "");
    if (shell->idle_ms)
        timer_start(&shell->timer, &shell->sandbox->reactor, shell->idle_ms, at_idle_end, shell);
    begin_next(shell);
}

/* What a command printed is in the pipes before the shell says that it has ended. A client that does not keep up gets it from
 * the run, which takes as much as a pipe holds. */
static void finish_current(struct shell *shell, int status)
{
    struct line *line = shell->current;
    bool timed_out = shell->timed_out, was_interrupted = shell->phase == SHELL_INTERRUPTING;

    for (int i = 0; i < 2; i++)
        tap_empty(&shell->taps[i]);
    shell->current = NULL;
    for (int i = 0; i < 2; i++)
        tap_resume(&shell->taps[i]);
    end_line(line, timed_out ? CTL_END_TIMED_OUT : CTL_END_EXITED, status, 0, "");
    if (was_interrupted)
        settle(shell);
    else
        become_idle(shell);
}

/* One line of the channel: "<number> <status>". Whatever else comes is none of ours. */
static void hear(struct shell *shell, const char *text)
{
    unsigned long long number;
    int status, used = 0;

    if (sscanf(text, "%20llu %9d%n", &number, &status, &used) != 2 || text[used] || number != shell->number)
        return;
    if (shell->phase == SHELL_OPENING) {
        for (int i = 0; i < 2; i++)
            tap_drain(&shell->taps[i]);
        tell_opener(shell, NULL);
        chronicle_add(&shell->sandbox->chronicle,
                      &(struct ctl_event){ .kind = CTL_EVENT_SESSION_OPENED, .subject = shell->name });
        become_idle(shell);
    } else if (shell->phase == SHELL_SETTLING) {
        /* What it says of the signals is nobody's output. */
        for (int i = 0; i < 2; i++)
            tap_drain(&shell->taps[i]);
        become_idle(shell);
    } else if (shell->current) {
        finish_current(shell, status & 255);
    }
}

static bool take_channel(const void *bytes, size_t len, void *cookie)
{
    struct shell *shell = cookie;

    for (size_t i = 0; i < len && shell->phase != SHELL_CLOSED; i++) {
        char c = ((const char *) bytes)[i];

        if (c == '\n') {
            shell->heard[shell->heard_len] = '\0';
            shell->heard_len = 0;
            hear(shell, shell->heard);
        } else {
            /* A line that is too long is none of ours either: its end is cut, and it will not match. */
            shell->heard[shell->heard_len] = c;
            shell->heard_len += shell->heard_len < sizeof(shell->heard) - 1;
        }
    }
    return true;
}

static uint64_t ticks_now(void)
{
    struct timespec t;
    uint64_t hz = (uint64_t) sysconf(_SC_CLK_TCK);

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t) t.tv_sec * hz + (uint64_t) t.tv_nsec * hz / (uint64_t) CLOCK_NS_PER_SEC;
}

static void next_number(struct shell *shell)
{
    shell->number++;
    shell->attempt = 0;
}

/* Asks it to say the number, which it can be asked again: what does not come from a command is heard once. */
static int say_report(struct shell *shell)
{
    autodone(buf) struct buf line = BUF_EMPTY;

    dialect_add_report_line(shell->dialect, &line, shell->number, shell->attempt++);
    return script_say(&shell->script, line.data);
}

/* A signal that comes while it reads takes the line with it. What is still in the pipe it will read, and to say more there would
 * only be in the way of the next command. */
static void ask_again(struct shell *shell)
{
    if (script_is_read(&shell->script))
        say_report(shell);
}

static void at_probe(void *cookie)
{
    struct shell *shell = cookie;

    if (shell->probe_count++ >= PROBES) {
        close_down(shell, CTL_END_LOST, 0, "its shell does not come back");
        return;
    }
    ask_again(shell);
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
    close_down(cookie, CTL_END_LOST, 0, "its shell does not come back");
}

/* init does what it is asked in its order: when it says that it could not start this, which nobody can, it has done all before. One
 * that is too busy to be asked is asked later. */
static void raise_barrier(void *cookie)
{
    static const char *const argv[] = { "/", NULL }, *const envp[] = { NULL };
    struct shell *shell = cookie;
    const int fds[] = { shell->text_fd, shell->text_fd, shell->text_fd };
    struct init_command nothing = { .cwd = "/", .argv = argv, .envp = envp, .fds = fds, .fd_count = ARRAY_LEN(fds) };
    struct init_spawn request = { .flags = INIT_SPAWN_SESSION };

    if (task_start(&shell->barrier, &shell->sandbox->link, &barrier_ops, &request, &nothing) == 0)
        timer_start(&shell->timer, &shell->sandbox->reactor, OPEN_MS, at_settle_timeout, shell);
    else if (shell->probe_count++ < PROBES)
        timer_start(&shell->timer, &shell->sandbox->reactor, PROBE_MS, raise_barrier, shell);
    else
        close_down(shell, CTL_END_LOST, 0, "its shell cannot be waited for");
}

/* A signal that is still on its way when the command has ended would hit the shell in the middle of the next line, and that
 * command would never run. So init says first that all signals have been sent; a shell that answers after that has had them. */
static void settle(struct shell *shell)
{
    shell->phase = SHELL_SETTLING;
    shell->probe_count = 0;
    next_number(shell);
    /* What it had just forked may have overheard the interrupt, and a shell waits for that before it does anything else. */
    task_kill(&shell->task, SIGKILL, INIT_KILL_BELOW, shell->since_ticks);
    roster_set(&shell->sandbox->roster, shell, shell->task.pid, "");
    raise_barrier(shell);
}

static int give_text(struct shell *shell, const char *command)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r;

    dialect_add_text(&text, command, strlen(command));
    r = fd_pwrite_full(shell->text_fd, text.data, text.len, 0);
    return r == 0 && ftruncate(shell->text_fd, (off_t) text.len) < 0 ? -errno : r;
}

static void at_command_timeout(void *cookie)
{
    struct shell *shell = cookie;

    shell->timed_out = true;
    shell->interrupt_step = 0;
    shell->phase = SHELL_INTERRUPTING;
    interrupt(shell);
}

static void at_interrupt_step(void *cookie)
{
    interrupt(cookie);
}

/*
 * First the shell, then, when it must know of it, what it runs: one whose child dies while it knows of no interrupt goes on with the
 * next command of its list. Then, again and again, signals that cannot be overheard and, by themselves, the question whether it is
 * back: what it read of a line when a signal comes is forgotten, so the two must not meet.
 */
static void interrupt(struct shell *shell)
{
    unsigned step = ++shell->interrupt_step;

    if (step > INTERRUPT_STEPS) {
        close_down(shell, CTL_END_SIGNALED, SIGKILL, "its shell could not be interrupted");
        return;
    }
    if (step == 2)
        task_kill(&shell->task, SIGINT, INIT_KILL_BELOW, shell->since_ticks);
    else if (step % 2 == 0)
        ask_again(shell);
    else
        task_kill(&shell->task, SIGINT, INIT_KILL_MAIN, 0);
    if (step > 2 && step % 2)
        task_kill(&shell->task, SIGKILL, INIT_KILL_BELOW, shell->since_ticks);
    timer_start(&shell->timer, &shell->sandbox->reactor, step == 1 ? INTERRUPT_PAUSE_MS : INTERRUPT_STEP_MS, at_interrupt_step,
                shell);
}

static void begin_next(struct shell *shell)
{
    struct line *line = shell->queue;
    int r;

    if (!line || shell->phase != SHELL_IDLE)
        return;
    shell->queue = line->next;
    shell->current = line;
    shell->phase = SHELL_BUSY;
    shell->since_ticks = ticks_now();
    timer_stop(&shell->timer);
    /* Before the shell can write anything that would be charged to it. */
    roster_set(&shell->sandbox->roster, shell, shell->task.pid, line->run.name);
    run_started(&line->run, 0, -1, line->text);
    next_number(shell);
    r = give_text(shell, line->text);
    if (r == 0)
        r = script_say(&shell->script, shell->dialect->run_line);
    if (r == 0)
        r = say_report(shell);
    /* One that has ended, by this very command perhaps, says itself how. */
    if (r < 0 && r != -EPIPE) {
        close_down(shell, CTL_END_LOST, 0, "its shell does not listen");
        return;
    }
    if (line->timeout_ms)
        timer_start(&shell->timer, &shell->sandbox->reactor, line->timeout_ms, at_command_timeout, shell);
}

static void on_spawned(struct task *task, int pty_fd)
{
    struct shell *shell = shell_of_task(task);

    if (pty_fd >= 0)
        close(pty_fd);
    roster_set(&shell->sandbox->roster, shell, task->pid, "");
}

static void on_failed(struct task *task, int error, enum init_step step)
{
    struct shell *shell = shell_of_task(task);
    autofree char *why = xprintf("starting the shell failed: %s: %s", init_step_text(step), strerror(error));

    close_down(shell, CTL_END_SESSION, 0, why);
    shell_free(shell);
}

static void on_exited(struct task *task, const struct init_report *report)
{
    struct shell *shell = shell_of_task(task);
    int status = report->exited.status;

    if (shell->phase == SHELL_OPENING)
        close_down(shell, CTL_END_SESSION, 0, "the shell ended at once");
    else if (WIFEXITED(status))
        close_down(shell, CTL_END_EXITED, WEXITSTATUS(status), "exit");
    else
        close_down(shell, CTL_END_SIGNALED, WTERMSIG(status), "its shell was killed");
}

static void on_gone(struct task *task)
{
    shell_free(shell_of_task(task));
}

static const struct task_ops task_ops = {
    .spawned = on_spawned,
    .failed = on_failed,
    .exited = on_exited,
    .gone = on_gone,
};

static void unqueue(struct line *line)
{
    struct line **slot = &line->shell->queue;

    while (*slot && *slot != line)
        slot = &(*slot)->next;
    if (*slot)
        *slot = line->next;
}

/* One command of a session is stopped as by Ctrl-C, whichever signal was asked for: the session goes on. */
static void kill_run(struct run *run, int signal, enum ctl_kill_scope scope)
{
    struct line *line = line_of_run(run);
    struct shell *shell = line->shell;

    (void) scope;
    if (!shell)
        return;
    if (shell->current != line) {
        unqueue(line);
        end_line(line, CTL_END_SIGNALED, signal, 0, "");
    } else if (shell->phase == SHELL_BUSY) {
        shell->interrupt_step = 0;
        shell->phase = SHELL_INTERRUPTING;
        interrupt(shell);
    }
}

static void resume_run(struct run *run)
{
    struct line *line = line_of_run(run);

    for (int i = 0; line->shell && line->shell->current == line && i < 2; i++)
        tap_resume(&line->shell->taps[i]);
}

static void drop_run(struct run *run)
{
    struct line *line = line_of_run(run);

    run_done(run);
    free(line->text);
    free(line);
}

static const struct run_ops run_ops = { .kill = kill_run, .resume = resume_run, .drop = drop_run };

static void at_open_timeout(void *cookie)
{
    close_down(cookie, CTL_END_SESSION, 0, "the shell does not answer");
}

static int open_channels(struct shell *shell, int fds[5])
{
    struct reactor *reactor = &shell->sandbox->reactor;
    /* A shell that forgets its input must not have read more than a line of it. */
    int r = script_open(&shell->script, reactor, shell->dialect->forgets_input, &fds[0]);

    if (r == 0)
        r = tap_open(&shell->taps[0], reactor, take_out, at_pipe_end, shell, &fds[1]);
    if (r == 0)
        r = tap_open(&shell->taps[1], reactor, take_err, at_pipe_end, shell, &fds[2]);
    if (r == 0)
        r = tap_open(&shell->channel, reactor, take_channel, at_pipe_end, shell, &fds[3]);
    if (r < 0)
        return r;
    sandbox_give_pipe(shell->sandbox, fds[1]);
    sandbox_give_pipe(shell->sandbox, fds[2]);
    shell->text_fd = memfd_create("command", MFD_CLOEXEC);
    if (shell->text_fd < 0)
        return -errno;
    fds[4] = fcntl(shell->text_fd, F_DUPFD_CLOEXEC, 3);
    return fds[4] < 0 ? -errno : 0;
}

static int spawn(struct shell *shell, const char *path, const struct ctl_command *wanted, const int fds[5])
{
    struct sandbox *sandbox = shell->sandbox;
    struct init_spawn request = { .flags = INIT_SPAWN_SESSION };
    autodone(environment) struct environment environment;
    const char *argv[8] = { path };
    struct init_command what = {
        .cwd = *wanted->cwd ? wanted->cwd : RUNTIME_WORKSPACE, .argv = argv, .fds = fds, .fd_count = 5
    };
    autofree char *shell_var = xprintf("SHELL=%s", path);

    for (size_t i = 0; shell->dialect->args[i]; i++)
        argv[i + 1] = shell->dialect->args[i];
    environment_init(&environment, sandbox->spec, wanted->envp);
    environment_set(&environment, shell_var);
    what.envp = (const char *const *) environment.vars;
    return task_start(&shell->task, &sandbox->link, &task_ops, &request, &what);
}

static int start(struct shell *shell, const char *path, const struct ctl_command *wanted)
{
    int fds[5] = { -1, -1, -1, -1, -1 };
    int r = open_channels(shell, fds);

    if (r == 0)
        r = spawn(shell, path, wanted, fds);
    for (int i = 0; i < 5; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    if (r < 0)
        return r;
    next_number(shell);
    r = script_say(&shell->script, shell->dialect->preamble);
    if (r == 0)
        r = say_report(shell);
    /* One that has failed already says itself why. */
    return r == -EPIPE ? 0 : r;
}

static struct shell *shell_new(struct sandbox *sandbox, const char *path)
{
    struct shell *shell = xnew(struct shell);

    shell->sandbox = sandbox;
    shell->dialect = dialect_of(path);
    shell->script = SCRIPT_NONE;
    shell->text_fd = -1;
    shell->taps[0] = shell->taps[1] = shell->channel = TAP_NONE;
    shell->began_ns = clock_now_ns();
    shell->next = sandbox->shells;
    shell->slot = &sandbox->shells;
    if (shell->next)
        shell->next->slot = &shell->next;
    sandbox->shells = shell;
    sandbox->shell_count++;
    return shell;
}

int shell_open(struct sandbox *sandbox, struct client *client, uint64_t tag, const struct ctl_run *asked,
               const struct ctl_command *wanted, struct err *err)
{
    const char *path = asked->argc > 0 ? wanted->argv[0] : dialect_default_shell();
    struct shell *shell;
    int r;

    if (*wanted->name && find(sandbox, wanted->name))
        return err_set(err, ERR_ALREADY_EXISTS, -EEXIST, "there is a session named '%s' already", wanted->name);
    shell = shell_new(sandbox, path);
    if (*wanted->name)
        memcpy(shell->name, wanted->name, strlen(wanted->name) + 1);
    else
        id_new("se_", shell->name);
    shell->idle_ms = asked->timeout_ms;
    r = start(shell, path, wanted);
    if (r < 0) {
        shell_free(shell);
        return err_errno(err, r, "starting the shell '%s'", path);
    }
    shell->opener = client;
    shell->opener_tag = tag;
    timer_start(&shell->timer, &sandbox->reactor, OPEN_MS, at_open_timeout, shell);
    return 0;
}

int shell_run(struct sandbox *sandbox, struct client *client, uint64_t tag, const struct ctl_run *asked,
              const struct ctl_command *wanted, struct err *err)
{
    struct shell *shell = find(sandbox, wanted->session);
    struct line *line, **last;
    int r;

    if (!shell)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no session '%s'", wanted->session);
    line = xnew(struct line);
    r = run_init(&line->run, sandbox, &run_ops, client, tag, asked, wanted->name);
    if (r < 0) {
        free(line);
        return err_set(err, ERR_ALREADY_EXISTS, r, "there is a command named '%s' already", wanted->name);
    }
    line->shell = shell;
    line->timeout_ms = asked->timeout_ms;
    line->text = xdup(wanted->argv[0]);
    for (last = &shell->queue; *last; last = &(*last)->next)
        ;
    *last = line;
    begin_next(shell);
    return 0;
}

int shell_close(struct sandbox *sandbox, const char *name, struct err *err)
{
    struct shell *shell = find(sandbox, name);

    if (!shell)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no session '%s'", name);
    close_down(shell, CTL_END_SIGNALED, SIGKILL, "it was closed");
    return 0;
}

void shell_lose_client(struct sandbox *sandbox, const struct client *client)
{
    for (struct shell *shell = sandbox->shells; shell; shell = shell->next) {
        if (shell->opener == client)
            shell->opener = NULL;
    }
}

void shell_lose_all(struct sandbox *sandbox)
{
    while (sandbox->shells) {
        close_down(sandbox->shells, CTL_END_LOST, 0, "the sandbox ended");
        shell_free(sandbox->shells);
    }
}
