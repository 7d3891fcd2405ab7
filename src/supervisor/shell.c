#include "supervisor/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/list.h"
#include "base/mem.h"
#include "runtime/runtime_spec.h"
#include "supervisor/client.h"
#include "supervisor/environment.h"
#include "supervisor/shell_int.h"

#define shell_of_task(t) ((struct shell *) ((char *) (t) -offsetof(struct shell, task)))

struct shell *shell_find(struct sandbox *sandbox, const char *name)
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
        pipe_reader_close(&shell->readers[i]);
    pipe_reader_close(&shell->channel);
    task_forget(&shell->task);
    task_forget(&shell->barrier);
    exec_of_pid_remove(&shell->sandbox->exec_of_pid, shell);
    shell_stdin_close(&shell->shell_stdin);
    if (shell->text_fd >= 0)
        close(shell->text_fd);
    list_remove(shell);
    shell->sandbox->shell_count--;
    free(shell);
}

/* Answers the client that waits for the session to open. */
static void shell_notify_opener(struct shell *shell, const char *problem)
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

void shell_close_down(struct shell *shell, enum ctl_end end, int status, const char *why)
{
    struct shell_command *command = shell->current;

    if (shell->phase == SHELL_CLOSED)
        return;
    timer_stop(&shell->timer);
    if (shell->phase == SHELL_OPENING)
        shell_notify_opener(shell, why);
    else
        event_log_add(&shell->sandbox->event_log, &(struct ctl_event){
                                                      .kind = CTL_EVENT_SESSION_CLOSED,
                                                      .subject = shell->name,
                                                      .detail = why,
                                                      .numbers = { (clock_now_ns() - shell->began_ns) / 1000 },
                                                  });
    shell->phase = SHELL_CLOSED;
    task_kill(&shell->task, SIGKILL, INIT_KILL_TREE, 0);
    if (command) {
        for (int i = 0; i < 2; i++)
            pipe_reader_drain_all(&shell->readers[i]);
        shell->current = NULL;
        shell_end_command(command, shell->timed_out ? CTL_END_TIMED_OUT : end, status, CTL_FINISHED_SESSION_CLOSED, "");
    }
    while ((command = shell->queue)) {
        shell->queue = command->next;
        shell_end_command(command, CTL_END_SESSION, 0, CTL_FINISHED_SESSION_CLOSED, why);
    }
}

static void at_idle_end(void *cookie)
{
    shell_close_down(cookie, CTL_END_SESSION, 0, "it was idle for too long");
}

void shell_become_idle(struct shell *shell)
{
    shell->phase = SHELL_IDLE;
    shell->timed_out = false;
    timer_stop(&shell->timer);
    exec_of_pid_set(&shell->sandbox->exec_of_pid, shell, shell->task.pid, "");
    if (shell->idle_ms)
        timer_start(&shell->timer, &shell->sandbox->reactor, shell->idle_ms, at_idle_end, shell);
    shell_begin_next(shell);
}

static bool take_output(struct shell *shell, unsigned stream, const void *bytes, size_t len)
{
    return shell->current ? run_add_output(&shell->current->run, stream, bytes, len) : true;
}

static bool on_stdout(const void *bytes, size_t len, void *cookie)
{
    return take_output(cookie, 0, bytes, len);
}

static bool on_stderr(const void *bytes, size_t len, void *cookie)
{
    return take_output(cookie, 1, bytes, len);
}

/* Handles a line of the channel, "<number> <status>". Ignores any other line. */
static void shell_on_report_line(struct shell *shell, const char *text)
{
    unsigned long long number;
    int status, used = 0;

    if (sscanf(text, "%20llu %9d%n", &number, &status, &used) != 2 || text[used] || number != shell->number)
        return;
    if (shell->phase == SHELL_OPENING) {
        for (int i = 0; i < 2; i++)
            pipe_reader_drain(&shell->readers[i]);
        shell_notify_opener(shell, NULL);
        event_log_add(&shell->sandbox->event_log,
                      &(struct ctl_event){ .kind = CTL_EVENT_SESSION_OPENED, .subject = shell->name });
        shell_become_idle(shell);
    } else if (shell->phase == SHELL_SETTLING) {
        /* Messages about the signals belong to no command. */
        for (int i = 0; i < 2; i++)
            pipe_reader_drain(&shell->readers[i]);
        shell_become_idle(shell);
    } else if (shell->current) {
        shell_finish_current(shell, status & 255);
    }
}

static bool on_channel(const void *bytes, size_t len, void *cookie)
{
    struct shell *shell = cookie;

    for (size_t i = 0; i < len && shell->phase != SHELL_CLOSED; i++) {
        char c = ((const char *) bytes)[i];

        if (c == '\n') {
            shell->report[shell->report_len] = '\0';
            shell->report_len = 0;
            shell_on_report_line(shell, shell->report);
        } else {
            /* An overlong line is cut and then ignored, because it does not match. */
            shell->report[shell->report_len] = c;
            shell->report_len += shell->report_len < sizeof(shell->report) - 1;
        }
    }
    return true;
}

static void at_pipe_end(void *cookie)
{
    (void) cookie;
}

/* Creates standard input, output and error, the channel and the text file for the shell's process. */
static int shell_open_channels(struct shell *shell, int fds[5])
{
    struct reactor *reactor = &shell->sandbox->reactor;
    /* A shell that drops its input buffer must not have read more than one line. */
    int r = shell_stdin_open(&shell->shell_stdin, reactor, shell->shell_proto->forgets_input, &fds[0]);

    if (r == 0)
        r = pipe_reader_open(&shell->readers[0], reactor, on_stdout, at_pipe_end, shell, &fds[1]);
    if (r == 0)
        r = pipe_reader_open(&shell->readers[1], reactor, on_stderr, at_pipe_end, shell, &fds[2]);
    if (r == 0)
        r = pipe_reader_open(&shell->channel, reactor, on_channel, at_pipe_end, shell, &fds[3]);
    if (r < 0)
        return r;
    sandbox_chown_pipe(shell->sandbox, fds[1]);
    sandbox_chown_pipe(shell->sandbox, fds[2]);
    shell->text_fd = memfd_create("command", MFD_CLOEXEC);
    if (shell->text_fd < 0)
        return -errno;
    fds[4] = fcntl(shell->text_fd, F_DUPFD_CLOEXEC, 3);
    return fds[4] < 0 ? -errno : 0;
}

void shell_next_number(struct shell *shell)
{
    shell->number++;
    shell->attempt = 0;
}

int shell_request_report(struct shell *shell)
{
    autodone(buf) struct buf line = BUF_EMPTY;

    shell_proto_add_report_line(shell->shell_proto, &line, shell->number, shell->attempt++);
    return shell_stdin_write_line(&shell->shell_stdin, line.data);
}

/* A signal while the shell reads loses the line. If a request is still in the pipe, the shell will read it, and another one
 * would only delay the next command. */
void shell_request_report_again(struct shell *shell)
{
    if (shell_stdin_is_drained(&shell->shell_stdin))
        shell_request_report(shell);
}

static void on_spawned(struct task *task, int pty_fd)
{
    struct shell *shell = shell_of_task(task);

    if (pty_fd >= 0)
        close(pty_fd);
    exec_of_pid_set(&shell->sandbox->exec_of_pid, shell, task->pid, "");
}

static void on_failed(struct task *task, int error, enum init_step step)
{
    struct shell *shell = shell_of_task(task);
    autofree char *why = xprintf("starting the shell failed: %s: %s", init_step_text(step), strerror(error));

    shell_close_down(shell, CTL_END_SESSION, 0, why);
    shell_free(shell);
}

static void on_exited(struct task *task, const struct init_report *report)
{
    struct shell *shell = shell_of_task(task);
    int status = report->exited.status;

    if (shell->phase == SHELL_OPENING)
        shell_close_down(shell, CTL_END_SESSION, 0, "the shell ended at once");
    else if (WIFEXITED(status))
        shell_close_down(shell, CTL_END_EXITED, WEXITSTATUS(status), "exit");
    else
        shell_close_down(shell, CTL_END_SIGNALED, WTERMSIG(status), "its shell was killed");
}

static void on_gone(struct task *task)
{
    shell_free(shell_of_task(task));
}

static const struct task_ops shell_task_ops = {
    .spawned = on_spawned,
    .failed = on_failed,
    .exited = on_exited,
    .gone = on_gone,
};

static void at_open_timeout(void *cookie)
{
    shell_close_down(cookie, CTL_END_SESSION, 0, "the shell does not answer");
}

static int shell_spawn(struct shell *shell, const char *path, const struct ctl_command *wanted, const int fds[5])
{
    struct sandbox *sandbox = shell->sandbox;
    struct init_spawn request = { .flags = INIT_SPAWN_SESSION };
    autodone(environment) struct environment environment;
    const char *argv[8] = { path };
    struct init_command what = {
        .cwd = *wanted->cwd ? wanted->cwd : RUNTIME_WORKSPACE, .argv = argv, .fds = fds, .fd_count = 5
    };
    autofree char *shell_var = xprintf("SHELL=%s", path);

    for (size_t i = 0; shell->shell_proto->args[i]; i++)
        argv[i + 1] = shell->shell_proto->args[i];
    environment_init(&environment, sandbox->spec, wanted->envp);
    environment_set(&environment, shell_var);
    what.envp = (const char *const *) environment.vars;
    return task_start(&shell->task, &sandbox->link, &shell_task_ops, &request, &what);
}

static int shell_start(struct shell *shell, const char *path, const struct ctl_command *wanted)
{
    int fds[5] = { -1, -1, -1, -1, -1 };
    int r = shell_open_channels(shell, fds);

    if (r == 0)
        r = shell_spawn(shell, path, wanted, fds);
    for (int i = 0; i < 5; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    if (r < 0)
        return r;
    shell_next_number(shell);
    r = shell_stdin_write_line(&shell->shell_stdin, shell->shell_proto->preamble);
    if (r == 0)
        r = shell_request_report(shell);
    /* A shell that has failed already is reported by its task. */
    return r == -EPIPE ? 0 : r;
}

static struct shell *shell_new(struct sandbox *sandbox, const char *path)
{
    struct shell *shell = xnew(struct shell);

    shell->sandbox = sandbox;
    shell->shell_proto = shell_proto_of(path);
    shell->shell_stdin = SHELL_STDIN_NONE;
    shell->text_fd = -1;
    shell->readers[0] = shell->readers[1] = shell->channel = PIPE_READER_NONE;
    shell->began_ns = clock_now_ns();
    list_add(&sandbox->shells, shell);
    sandbox->shell_count++;
    return shell;
}

int shell_open(struct sandbox *sandbox, struct client *client, uint64_t tag, const struct ctl_run *asked,
               const struct ctl_command *wanted, struct err *err)
{
    const char *path = asked->argc > 0 ? wanted->argv[0] : shell_proto_default_shell();
    struct shell *shell;
    int r;

    if (*wanted->name && shell_find(sandbox, wanted->name))
        return err_set(err, ERR_ALREADY_EXISTS, -EEXIST, "there is a session named '%s' already", wanted->name);
    shell = shell_new(sandbox, path);
    if (*wanted->name)
        memcpy(shell->name, wanted->name, strlen(wanted->name) + 1);
    else
        id_new("se_", shell->name);
    shell->idle_ms = asked->timeout_ms;
    r = shell_start(shell, path, wanted);
    if (r < 0) {
        shell_free(shell);
        return err_errno(err, r, "starting the shell '%s'", path);
    }
    shell->opener = client;
    shell->opener_tag = tag;
    timer_start(&shell->timer, &sandbox->reactor, SHELL_ANSWER_MS, at_open_timeout, shell);
    return 0;
}

int shell_close(struct sandbox *sandbox, const char *name, struct err *err)
{
    struct shell *shell = shell_find(sandbox, name);

    if (!shell)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no session '%s'", name);
    shell_close_down(shell, CTL_END_SIGNALED, SIGKILL, "it was closed");
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
        shell_close_down(sandbox->shells, CTL_END_LOST, 0, "the sandbox ended");
        shell_free(sandbox->shells);
    }
}
