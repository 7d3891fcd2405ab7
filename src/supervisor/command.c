#include "supervisor/command.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/id.h"
#include "base/mem.h"
#include "runtime/runtime_spec.h"
#include "supervisor/environment.h"
#include "supervisor/pipe_reader.h"
#include "supervisor/process.h"
#include "supervisor/sandbox.h"

/* How long to wait for more output after the first process has ended while another process holds the pipe. */
#define GRACE_MS 100
/* How long killed processes may take to end before the client is told anyway. */
#define KILL_WAIT_MS 5000

struct command {
    struct run run;
    struct task task;
    struct process *process;       /* owned; NULL: not logged */
    struct pipe_reader readers[2]; /* its pipes; a logged process has one pipe or its terminal's master */
    struct timer timeout;          /* after the timeout: waits for the tree to end */
    struct timer grace;
    bool timed_out, has_exited, is_over /* the whole tree has ended */;
    bool is_given_up; /* killed, but it did not end in time */
    bool is_draining; /* it must not be ended now */
    struct ctl_finished result;
    char *text; /* owned: for the event log */
};

#define command_of_run(r) ((struct command *) ((char *) (r) -offsetof(struct command, run)))
#define command_of_task(t) ((struct command *) ((char *) (t) -offsetof(struct command, task)))

static void command_free(struct command *command)
{
    timer_stop(&command->timeout);
    timer_stop(&command->grace);
    for (int i = 0; i < 2; i++)
        pipe_reader_close(&command->readers[i]);
    task_forget(&command->task);
    process_free(command->process);
    exec_of_pid_remove(&command->run.sandbox->exec_of_pid, command);
    run_done(&command->run);
    free(command->text);
    free(command);
}

static void command_end(struct command *command)
{
    timer_stop(&command->grace);
    timer_stop(&command->timeout);
    /* Nobody can attach to it any more: its record keeps the result. */
    if (command->process && !command->run.client)
        command->run.is_detached = false;
    run_end(&command->run, &command->result);
}

/* After a time-out the client hears of the end only when the whole tree has ended. */
static bool awaits_tree(const struct command *command)
{
    return command->timed_out && !command->is_over && !command->is_given_up;
}

/* Ends the command if nothing is left to wait for. May free it. */
static void command_end_if_done(struct command *command)
{
    bool has_all = command->readers[0].fd < 0 && command->readers[1].fd < 0;

    if (command->has_exited && has_all && !command->is_draining && !awaits_tree(command))
        command_end(command);
}

/* Reads what is in the pipes now. False if the client cannot take it all. */
static bool command_drain_output(struct command *command)
{
    bool is_empty = true, is_for_log = command->process && !command->run.client;

    command->is_draining = true;
    for (int i = 0; i < 2; i++) {
        if (is_for_log)
            pipe_reader_drain_all(&command->readers[i]);
        else
            pipe_reader_drain(&command->readers[i]);
        is_empty = is_empty && !pipe_reader_is_paused(&command->readers[i]);
    }
    command->is_draining = false;
    return is_empty;
}

static void at_grace(void *cookie)
{
    struct command *command = cookie;

    if (awaits_tree(command))
        return;
    /* The client is slow, not the command: wait longer. */
    if (!command_drain_output(command))
        timer_start(&command->grace, &command->run.sandbox->reactor, GRACE_MS, at_grace, command);
    else
        command_end(command);
}

/* The log keeps the output for clients that attach later, so the ring buffer stays empty meanwhile. */
static bool on_stdout(const void *bytes, size_t len, void *cookie)
{
    struct command *command = cookie;

    if (command->process) {
        log_file_add(&command->process->log, bytes, len);
        if (!command->run.client || command->run.phase >= RUN_ENDED)
            return true;
    }
    return run_add_output(&command->run, 0, bytes, len);
}

static bool on_stderr(const void *bytes, size_t len, void *cookie)
{
    return run_add_output(&((struct command *) cookie)->run, 1, bytes, len);
}

static void at_pipe_end(void *cookie)
{
    command_end_if_done(cookie);
}

static void on_spawned(struct task *task, int given_pty_fd)
{
    struct command *command = command_of_task(task);
    struct process *process = command->process;
    struct sandbox *sandbox = command->run.sandbox;
    autofd int pty_fd = given_pty_fd;
    int r = 0;

    exec_of_pid_set(&sandbox->exec_of_pid, command, task->pid, command->run.name);
    if (process) {
        process_note_started(process, task->pid);
        if (pty_fd >= 0)
            r = tty_input_open(&process->tty_input, &sandbox->reactor, pty_fd);
        if (r == 0 && pty_fd >= 0)
            r = pipe_reader_adopt(&command->readers[0], &sandbox->reactor, on_stdout, at_pipe_end, command, steal_fd(&pty_fd));
        if (r < 0)
            task_kill(task, SIGKILL, INIT_KILL_TREE, 0);
    }
    run_started(&command->run, task->pid, process ? -1 : pty_fd, command->text);
    if (process && !process->record.is_tty)
        command->run.client = NULL;
}

/* As a shell does: 127 if the program does not exist, 126 if it cannot be executed. */
static void on_failed(struct task *task, int error, enum init_step step)
{
    struct command *command = command_of_task(task);
    struct ctl_finished *result = &command->result;

    result->end = CTL_END_NOT_STARTED;
    result->error = error;
    result->status = step != INIT_STEP_EXEC ? 125 : error == ENOENT || error == ENOTDIR ? 127 : 126;
    snprintf(result->text, sizeof(result->text), "%s: %s", init_step_text(step), strerror(error));
    command->is_over = command->has_exited = true;
    for (int i = 0; i < 2; i++)
        pipe_reader_close(&command->readers[i]);
    if (command->process)
        process_note_stopped(command->process);
    command_end(command);
}

static void at_kill_wait(void *cookie)
{
    ((struct command *) cookie)->is_given_up = true;
    at_grace(cookie);
}

static void on_exited(struct task *task, const struct init_report *report)
{
    struct command *command = command_of_task(task);
    struct ctl_finished *result = &command->result;
    int status = report->exited.status;

    command->has_exited = true;
    result->end = command->timed_out ? CTL_END_TIMED_OUT : WIFEXITED(status) ? CTL_END_EXITED : CTL_END_SIGNALED;
    result->status = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
    result->user_us = report->exited.user_us;
    result->system_us = report->exited.system_us;
    result->max_rss_kib = report->exited.max_rss_kib;
    if (command->process)
        process_note_exited(command->process, result);
    if (!command->timed_out)
        timer_stop(&command->timeout);
    timer_start(&command->grace, &command->run.sandbox->reactor, GRACE_MS, at_grace, command);
    command_drain_output(command);
    command_end_if_done(command);
}

static void on_gone(struct task *task)
{
    struct command *command = command_of_task(task);

    command->is_over = true;
    command->run.is_alive = false;
    exec_of_pid_remove(&command->run.sandbox->exec_of_pid, command);
    /* The log must be complete before the record says that the process ended. */
    command_drain_output(command);
    if (command->process)
        process_note_stopped(command->process);
    if (command->run.phase == RUN_REPORTED) {
        command_free(command);
        return;
    }
    /* The grace of a killed command starts only now: its client may not have read everything yet. */
    timer_stop(&command->timeout);
    timer_start(&command->grace, &command->run.sandbox->reactor, GRACE_MS, at_grace, command);
    command_end_if_done(command);
}

static const struct task_ops task_ops = {
    .spawned = on_spawned,
    .failed = on_failed,
    .exited = on_exited,
    .gone = on_gone,
};

static void kill_run(struct run *run, int signal, enum ctl_kill_scope scope)
{
    struct command *command = command_of_run(run);

    task_kill(&command->task, signal, scope == CTL_KILL_MAIN ? INIT_KILL_MAIN : INIT_KILL_TREE, 0);
}

static void resume_run(struct run *run)
{
    struct command *command = command_of_run(run);

    for (int i = 0; i < 2; i++)
        pipe_reader_resume(&command->readers[i]);
}

/* A command that still runs is kept until it ends. Its output is read, so that a full pipe does not block it, and dropped. */
static void drop_run(struct run *run)
{
    struct command *command = command_of_run(run);

    if (command->is_over || !command->task.link)
        command_free(command);
    else
        resume_run(run);
}

static void replay_run(struct run *run)
{
    struct command *command = command_of_run(run);

    if (command->process)
        process_replay(command->process, &run->outputs[0].ring);
}

static int input_run(struct run *run, const void *bytes, size_t len)
{
    struct process *process = command_of_run(run)->process;

    if (!process || !process->record.is_tty)
        return -EPROTO;
    return tty_input_write(&process->tty_input, run->client, run->tag, bytes, len);
}

/* A client that holds the terminal's master sets the size itself. */
static void resize_run(struct run *run, uint16_t rows, uint16_t cols)
{
    struct winsize size = { .ws_row = rows, .ws_col = cols };
    struct command *command = command_of_run(run);

    if (command->process && command->process->record.is_tty && command->readers[0].fd >= 0)
        ioctl(command->readers[0].fd, TIOCSWINSZ, &size);
}

/* Bytes that the terminal has not read yet are still written, without an acknowledgement. */
static void leave_run(struct run *run)
{
    struct command *command = command_of_run(run);

    if (command->process)
        tty_input_lose_client(&command->process->tty_input);
}

static const struct run_ops run_ops = {
    .kill = kill_run,
    .resume = resume_run,
    .drop = drop_run,
    .replay = replay_run,
    .input = input_run,
    .resize = resize_run,
    .leave = leave_run,
};

static void at_timeout(void *cookie)
{
    struct command *command = cookie;

    command->timed_out = true;
    command->result.end = CTL_END_TIMED_OUT;
    command->result.status = SIGKILL;
    task_kill(&command->task, SIGKILL, INIT_KILL_TREE, 0);
    timer_start(&command->timeout, &command->run.sandbox->reactor, KILL_WAIT_MS, at_kill_wait, command);
}

static bool is_pipe(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC;
}

/* Refuses host files: through such a descriptor a command could read and change one, whatever the rules say. */
static int check_stdin(const struct sandbox *sandbox, int fd, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_errno(err, -errno, "standard input");
    if (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode))
        return err_invalid(err, "standard input must be a pipe or a socket");
    /* A named pipe is a file of the host and keeps its owner. */
    if (S_ISFIFO(st.st_mode) && is_pipe(fd))
        sandbox_chown_pipe(sandbox, fd);
    return 0;
}

/* Joins the arguments to one line and truncates it. */
static char *command_text(const char *const *argv)
{
    const size_t max = PROCESS_COMMAND_MAX - 1;
    autodone(buf) struct buf text = BUF_EMPTY;

    for (; *argv && text.len < max; argv++)
        buf_addf(&text, "%s%.*s", text.len ? " " : "", (int) max, *argv);
    if (text.len > max)
        text.data[max] = '\0';
    return buf_dup_take(&text);
}

static int open_pipes(struct command *command, bool is_tty, int fds[3], struct err *err)
{
    struct reactor *reactor = &command->run.sandbox->reactor;
    int r = 0;

    if (is_tty)
        return 0;
    if (fds[0] < 0) {
        fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        r = fds[0] < 0 ? -errno : 0;
    }
    if (r == 0)
        r = pipe_reader_open(&command->readers[0], reactor, on_stdout, at_pipe_end, command, &fds[1]);
    if (r == 0 && command->process) {
        fds[2] = fcntl(fds[1], F_DUPFD_CLOEXEC, 3);
        r = fds[2] < 0 ? -errno : 0;
    } else if (r == 0) {
        r = pipe_reader_open(&command->readers[1], reactor, on_stderr, at_pipe_end, command, &fds[2]);
    }
    if (r < 0)
        return err_errno(err, r, "making pipes for a command");
    sandbox_chown_pipe(command->run.sandbox, fds[1]);
    sandbox_chown_pipe(command->run.sandbox, fds[2]);
    return 0;
}

static void add_limit(struct init_spawn *spawn, uint32_t resource, uint64_t soft, uint64_t hard)
{
    if (soft > 0)
        spawn->rlimits[spawn->rlimit_count++] = (struct init_rlimit){ resource, soft, hard };
}

/* A process that uses up its CPU time gets SIGXCPU first, and SIGKILL a second later. */
static void add_limits(struct init_spawn *spawn, const struct ctl_run *asked)
{
    const struct ctl_limits *limits = &asked->limits;

    if (!(asked->flags & CTL_RUN_LIMITS))
        return;
    add_limit(spawn, RLIMIT_AS, limits->memory_bytes, limits->memory_bytes);
    add_limit(spawn, RLIMIT_CPU, limits->cpu_sec, limits->cpu_sec < UINT32_MAX ? limits->cpu_sec + 1 : limits->cpu_sec);
    add_limit(spawn, RLIMIT_NPROC, limits->processes, limits->processes);
    add_limit(spawn, RLIMIT_NOFILE, limits->files, limits->files);
}

/* Asks init to start the command with its environment and limits. Without a terminal `fds` become its descriptors 0, 1 and
 * 2. */
static int command_spawn(struct command *command, const struct ctl_run *asked, const struct ctl_command *wanted,
                         const int fds[3], struct err *err)
{
    struct sandbox *sandbox = command->run.sandbox;
    bool is_tty = asked->flags & CTL_RUN_TTY;
    struct init_spawn request = { .flags = is_tty ? INIT_SPAWN_TTY : INIT_SPAWN_SESSION,
                                  .rows = asked->rows,
                                  .cols = asked->cols };
    autodone(environment) struct environment environment;
    struct init_command what = {
        .cwd = *wanted->cwd ? wanted->cwd : RUNTIME_WORKSPACE,
        .argv = wanted->argv,
        .fds = fds,
        .fd_count = is_tty ? 0 : 3,
    };
    int r;

    add_limits(&request, asked);
    environment_init(&environment, sandbox->spec, wanted->envp);
    what.envp = (const char *const *) environment.vars;
    r = task_start(&command->task, &sandbox->link, &task_ops, &request, &what);
    if (r == -E2BIG)
        return err_set(err, ERR_INVALID_ARGUMENT, r, "arguments and environment are too long");
    return r < 0 ? err_errno(err, r, "asking the sandbox to start a command") : 0;
}

int command_start(struct sandbox *sandbox, struct client *client, uint64_t tag, const struct ctl_run *asked,
                  const struct ctl_command *wanted, int stdin_fd, struct err *err)
{
    bool is_logged = asked->flags & CTL_RUN_LOGGED, is_tty = asked->flags & CTL_RUN_TTY;
    int fds[3] = { is_logged ? -1 : stdin_fd, -1, -1 };
    const char *name = wanted->name;
    char made[ID_TEXT_MAX];
    struct command *command;
    int r = fds[0] >= 0 ? check_stdin(sandbox, fds[0], err) : 0;

    if (r == 0 && is_logged)
        r = process_choose_name(name, made, &name, err);
    if (r < 0)
        return r;
    command = xnew(struct command);
    command->readers[0] = command->readers[1] = PIPE_READER_NONE;
    r = run_init(&command->run, sandbox, &run_ops, client, tag, asked, name);
    if (r < 0) {
        free(command);
        return err_set(err, ERR_ALREADY_EXISTS, r, "there is a %s named '%s' already", is_logged ? "process" : "command", name);
    }
    command->text = command_text(wanted->argv);
    /* Registered before it can write anything. */
    exec_of_pid_set(&sandbox->exec_of_pid, command, 0, command->run.name);
    if (is_logged)
        r = process_new(sandbox, &command->task, name, command->text, wanted->session, is_tty, &command->process, err);
    if (r == 0)
        r = open_pipes(command, is_tty, fds, err);
    if (r == 0)
        r = command_spawn(command, asked, wanted, fds, err);
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0 && fds[i] != stdin_fd)
            close(fds[i]);
    }
    if (r < 0) {
        command_free(command);
        return r;
    }
    if (asked->timeout_ms)
        timer_start(&command->timeout, &sandbox->reactor, asked->timeout_ms, at_timeout, command);
    return 0;
}
