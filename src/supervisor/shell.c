#include "supervisor/shell.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "supervisor/client.h"
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

void shell_free(struct shell *shell)
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

void shell_notify_opener(struct shell *shell, const char *problem)
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

const struct task_ops shell_task_ops = {
    .spawned = on_spawned,
    .failed = on_failed,
    .exited = on_exited,
    .gone = on_gone,
};

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
