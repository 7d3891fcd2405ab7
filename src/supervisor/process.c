#include "supervisor/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "supervisor/client.h"
#include "supervisor/command.h"
#include "supervisor/process_int.h"
#include "supervisor/sandbox.h"

/* How long output may still come after the first process has ended, when something else holds the pipe. */
#define GRACE_MS 100
/* How long killed processes may take to be gone before whoever asked is told that they are not. */
#define KILL_WAIT_MS 5000

#define process_of_run(r) ((struct process *) ((char *) (r) -offsetof(struct process, run)))
#define process_of_task(t) ((struct process *) ((char *) (t) -offsetof(struct process, task)))

static void process_store_record(struct process *process)
{
    int r;

    process->record.lost_bytes = process->log.lost_bytes;
    r = process_record_store(process->run.sandbox->process_dir_fd, &process->record);
    if (r < 0)
        log_error("a process's record cannot be written", LOG_STR("process", process->record.name), LOG_ERRNO("error", r));
}

static void notify_waiters(struct process *process, const struct err *err)
{
    while (process->waiters) {
        struct process_waiter *waiter = process->waiters;

        process->waiters = waiter->next;
        if (err)
            client_error(waiter->client, waiter->tag, err);
        else
            client_reply(waiter->client, &(struct ctl_reply){ .type = CTL_REPLY_OK, .tag = waiter->tag }, -1);
        free(waiter);
    }
}

/* Nothing of it runs any more: said to those who wait, and for good. */
static void process_note_stopped(struct process *process, enum ctl_end end)
{
    if (process->record.stopped_ns)
        return;
    process->record.stopped_ns = clock_wall_ns();
    if (!process->record.has_exited)
        process->record.end = end;
    process_store_record(process);
    notify_waiters(process, NULL);
}

void process_free(struct process *process)
{
    timer_stop(&process->grace);
    timer_stop(&process->ending);
    tty_input_close(&process->tty_input);
    pipe_reader_close(&process->reader);
    task_forget(&process->task);
    if (process->record.pid)
        process_note_stopped(process, CTL_END_LOST);
    else
        process_record_remove(process->run.sandbox->process_dir_fd, process->record.name);
    log_file_close(&process->log);
    exec_of_pid_remove(&process->run.sandbox->exec_of_pid, process);
    *process->slot = process->next;
    if (process->next)
        process->next->slot = process->slot;
    run_done(&process->run);
    process_record_done(&process->record);
    free(process);
}

/* ---- output ---- */

bool process_add_output(const void *bytes, size_t len, void *cookie)
{
    struct process *process = cookie;

    log_file_add(&process->log, bytes, len);
    return !process->run.client || process->run.phase >= RUN_ENDED || run_add_output(&process->run, 0, bytes, len);
}

static void end_run(struct process *process)
{
    timer_stop(&process->grace);
    /* The record is what is kept of it. */
    if (!process->run.client)
        process->run.is_detached = false;
    run_end(&process->run, &process->result);
}

static void process_end_run_if_done(struct process *process)
{
    if (process->record.has_exited && process->reader.fd < 0 && !process->is_draining && process->run.phase < RUN_ENDED)
        end_run(process);
}

void process_at_output_end(void *cookie)
{
    process_end_run_if_done(cookie);
}

/* Takes what is there now. False when the client does not: there is more. */
static bool process_drain_output(struct process *process)
{
    process->is_draining = true;
    pipe_reader_drain(&process->reader);
    process->is_draining = false;
    return !pipe_reader_is_paused(&process->reader);
}

static void at_grace(void *cookie)
{
    struct process *process = cookie;

    if (!process_drain_output(process))
        timer_start(&process->grace, &process->run.sandbox->reactor, GRACE_MS, at_grace, process);
    else
        end_run(process);
}

/* ---- what init reports ---- */

static void on_spawned(struct task *task, int pty_fd)
{
    struct process *process = process_of_task(task);
    struct sandbox *sandbox = process->run.sandbox;
    int r = 0;

    process->record.pid = task->pid;
    process->record.started_ns = clock_wall_ns();
    process_store_record(process);
    exec_of_pid_set(&sandbox->exec_of_pid, process, task->pid, process->run.name);
    if (pty_fd >= 0) {
        r = tty_input_open(&process->tty_input, &sandbox->reactor, pty_fd);
        if (r == 0)
            r = pipe_reader_adopt(&process->reader, &sandbox->reactor, process_add_output, process_at_output_end, process,
                                  pty_fd);
        else
            close(pty_fd);
    }
    run_started(&process->run, task->pid, -1, process->record.command);
    if (r < 0)
        task_kill(&process->task, SIGKILL, INIT_KILL_TREE, 0);
    if (!process->record.is_tty)
        process->run.client = NULL;
}

static void on_failed(struct task *task, int error, enum init_step step)
{
    struct process *process = process_of_task(task);
    struct ctl_finished *result = &process->result;

    command_describe_failure(result, error, step);
    process->is_over = true;
    pipe_reader_close(&process->reader);
    notify_waiters(process, NULL);
    end_run(process);
}

static void on_exited(struct task *task, const struct init_report *report)
{
    struct process *process = process_of_task(task);
    struct process_record *record = &process->record;
    int status = report->exited.status;

    record->has_exited = true;
    record->end = WIFEXITED(status) ? CTL_END_EXITED : CTL_END_SIGNALED;
    record->status = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
    record->user_us = report->exited.user_us;
    record->system_us = report->exited.system_us;
    record->max_rss_kib = report->exited.max_rss_kib;
    process->result = (struct ctl_finished){ .end = record->end,
                                             .status = record->status,
                                             .user_us = record->user_us,
                                             .system_us = record->system_us,
                                             .max_rss_kib = record->max_rss_kib };
    process_store_record(process);
    timer_start(&process->grace, &process->run.sandbox->reactor, GRACE_MS, at_grace, process);
    process_drain_output(process);
    process_end_run_if_done(process);
}

static void on_gone(struct task *task)
{
    struct process *process = process_of_task(task);

    process->is_over = true;
    process->run.is_alive = false;
    timer_stop(&process->ending);
    exec_of_pid_remove(&process->run.sandbox->exec_of_pid, process);
    /* All of its output is in the log before its end is. */
    process->is_draining = true;
    if (process->run.client)
        pipe_reader_drain(&process->reader);
    else
        pipe_reader_drain_all(&process->reader);
    process->is_draining = false;
    if (!process->record.has_exited) {
        process->record.has_exited = true;
        process->record.end = process->result.end = CTL_END_SIGNALED;
        process->record.status = process->result.status = SIGKILL;
    }
    process_note_stopped(process, CTL_END_LOST);
    if (process->run.phase == RUN_REPORTED) {
        process_free(process);
        return;
    }
    timer_start(&process->grace, &process->run.sandbox->reactor, GRACE_MS, at_grace, process);
    process_end_run_if_done(process);
}

const struct task_ops process_task_ops = {
    .spawned = on_spawned,
    .failed = on_failed,
    .exited = on_exited,
    .gone = on_gone,
};

/* ---- what clients do with it ---- */

static void kill_run(struct run *run, int signal, enum ctl_kill_scope scope)
{
    task_kill(&process_of_run(run)->task, signal, scope == CTL_KILL_MAIN ? INIT_KILL_MAIN : INIT_KILL_TREE, 0);
}

static void resume_run(struct run *run)
{
    pipe_reader_resume(&process_of_run(run)->reader);
}

static void drop_run(struct run *run)
{
    struct process *process = process_of_run(run);

    if (process->is_over || !process->task.link)
        process_free(process);
    else
        resume_run(run);
}

/* What the last client has not got is in the log as well. */
static void replay_run(struct run *run)
{
    struct process *process = process_of_run(run);
    int dir_fd = run->sandbox->process_dir_fd;
    struct ring_buffer *ring = &run->outputs[0].ring;
    struct process_log log;
    uint64_t at;

    ring_buffer_done(ring);
    if (process_log_find(dir_fd, run->name, &log) < 0)
        return;
    autofree char *bytes = xalloc(PROCESS_REPLAY_BYTES);
    at = log.end - log.first > PROCESS_REPLAY_BYTES ? log.end - PROCESS_REPLAY_BYTES : log.first;
    ring->lost = at;
    while (at < process->log.end) {
        ssize_t n = process_log_read(dir_fd, run->name, &log, at, bytes, PROCESS_REPLAY_BYTES);

        if (n <= 0)
            return;
        ring_buffer_add(ring, bytes, (size_t) n);
        at += (uint64_t) n;
    }
}

static int input_run(struct run *run, const void *bytes, size_t len)
{
    struct process *process = process_of_run(run);

    if (!process->record.is_tty)
        return -ENOTTY;
    return tty_input_write(&process->tty_input, run->client, run->tag, bytes, len);
}

static void resize_run(struct run *run, uint16_t rows, uint16_t cols)
{
    struct winsize size = { .ws_row = rows, .ws_col = cols };
    struct process *process = process_of_run(run);

    if (process->record.is_tty && process->reader.fd >= 0)
        ioctl(process->reader.fd, TIOCSWINSZ, &size);
}

/* What was typed and is not taken yet stays typed; nobody is told any more. */
static void leave_run(struct run *run)
{
    tty_input_lose_client(&process_of_run(run)->tty_input);
}

const struct run_ops process_run_ops = {
    .kill = kill_run,
    .resume = resume_run,
    .drop = drop_run,
    .replay = replay_run,
    .input = input_run,
    .resize = resize_run,
    .leave = leave_run,
};

static void at_ending(void *cookie)
{
    struct process *process = cookie;
    struct err err = ERR_NONE;

    if (process->was_killed) {
        err_set(&err, ERR_DEADLINE_EXCEEDED, -ETIME, "the process was killed and does not end");
        notify_waiters(process, &err);
        return;
    }
    process->was_killed = true;
    task_kill(&process->task, SIGKILL, INIT_KILL_TREE, 0);
    timer_start(&process->ending, &process->run.sandbox->reactor, KILL_WAIT_MS, at_ending, process);
}

int process_end(struct sandbox *sandbox, struct client *client, uint64_t tag, const char *name, uint32_t grace_ms,
                struct err *err)
{
    struct process *process = sandbox->processes;
    struct process_waiter *waiter;

    while (process && (process->is_over || strcmp(process->record.name, name) != 0))
        process = process->next;
    if (!process)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no process '%s'", name);
    waiter = xnew(struct process_waiter);
    *waiter = (struct process_waiter){ .next = process->waiters, .client = client, .tag = tag };
    process->waiters = waiter;
    if (grace_ms > 0)
        task_kill(&process->task, SIGTERM, INIT_KILL_TREE, 0);
    process->was_killed = false;
    timer_start(&process->ending, &sandbox->reactor, grace_ms, at_ending, process);
    return 0;
}

void process_lose_client(struct sandbox *sandbox, const struct client *client)
{
    for (struct process *process = sandbox->processes; process; process = process->next) {
        for (struct process_waiter **at = &process->waiters; *at;) {
            struct process_waiter *waiter = *at;

            if (waiter->client != client) {
                at = &waiter->next;
                continue;
            }
            *at = waiter->next;
            free(waiter);
        }
    }
}
