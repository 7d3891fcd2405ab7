#include "supervisor/process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "supervisor/client.h"
#include "supervisor/sandbox.h"

/* How long killed processes may take to end before the waiting clients get an error. */
#define KILL_WAIT_MS 5000

/* A client that waits for the end. */
struct process_waiter {
    struct process_waiter *next;
    struct client *client; /* borrowed */
    uint64_t tag;
};

static void process_store_record(struct process *process)
{
    int r;

    process->record.lost_bytes = process->log.lost_bytes;
    r = process_record_store(process->sandbox->process_dir_fd, &process->record);
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
            client_ok(waiter->client, waiter->tag);
        free(waiter);
    }
}

int process_choose_name(const char *wanted, char made[ID_TEXT_MAX], const char **ret, struct err *err)
{
    if (!*wanted)
        id_new(PROCESS_ID_PREFIX, made);
    *ret = *wanted ? wanted : made;
    return id_is_valid(PROCESS_ID_PREFIX, *ret) ? 0 : err_invalid(err, "'%s' is no name of a process", *ret);
}

/* Keeps the number of records bounded: a new one is about to be added. */
static void forget_oldest(struct sandbox *sandbox)
{
    autodone(process_record_list) struct process_record_list list = { 0 };
    size_t ended = 0;

    if (process_record_list_load(sandbox->process_dir_fd, &list) < 0)
        return;
    for (size_t i = 0; i < list.count; i++)
        ended += list.items[i].stopped_ns != 0;
    for (size_t i = 0; i < list.count && ended > PROCESSES_KEPT_MAX; i++) {
        if (!list.items[i].stopped_ns)
            continue;
        process_record_remove(sandbox->process_dir_fd, list.items[i].name);
        ended--;
    }
}

int process_new(struct sandbox *sandbox, struct task *task, const char *name, const char *text, const char *note, bool is_tty,
                struct process **ret, struct err *err)
{
    struct log_file log;
    struct process *process;
    int r;

    if (sandbox->process_dir_fd < 0) {
        r = process_dir_open(sandbox->dir_fd, true);
        if (r < 0)
            return err_errno(err, r, "opening the directory of processes");
        sandbox->process_dir_fd = r;
    }
    forget_oldest(sandbox);
    r = log_file_open(&log, sandbox->process_dir_fd, name);
    if (r < 0)
        return err_errno(err, r, "making the log of a process");
    process = xnew(struct process);
    process->sandbox = sandbox;
    process->task = task;
    process->log = log;
    process->tty_input = TTY_INPUT_NONE;
    memcpy(process->record.name, name, strlen(name) + 1);
    process->record.is_tty = is_tty;
    process->record.started_ns = clock_wall_ns();
    process->record.command = xdup(text);
    process->record.note = xdup(note);
    list_add(&sandbox->processes, process);
    r = process_record_store(sandbox->process_dir_fd, &process->record);
    if (r < 0) {
        process_free(process);
        return err_errno(err, r, "making the record of a process");
    }
    *ret = process;
    return 0;
}

void process_free(struct process *process)
{
    if (!process)
        return;
    process_note_stopped(process);
    timer_stop(&process->ending);
    tty_input_close(&process->tty_input);
    if (!process->record.pid)
        process_record_remove(process->sandbox->process_dir_fd, process->record.name);
    log_file_close(&process->log);
    list_remove(process);
    process_record_done(&process->record);
    free(process);
}

void process_recover_all(struct sandbox *sandbox)
{
    autodone(process_record_list) struct process_record_list list = { 0 };
    int fd = process_dir_open(sandbox->dir_fd, false);

    if (fd < 0)
        return;
    sandbox->process_dir_fd = fd;
    if (process_record_list_load(fd, &list) < 0)
        return;
    for (size_t i = 0; i < list.count; i++) {
        struct process_record *record = &list.items[i];

        if (record->stopped_ns)
            continue;
        record->stopped_ns = clock_wall_ns();
        record->end = record->has_exited ? record->end : CTL_END_LOST;
        process_record_store(fd, record);
    }
}

void process_note_started(struct process *process, uint32_t pid)
{
    process->record.pid = pid;
    process->record.started_ns = clock_wall_ns();
    process_store_record(process);
}

void process_note_exited(struct process *process, const struct ctl_finished *result)
{
    struct process_record *record = &process->record;

    record->has_exited = true;
    record->end = result->end;
    record->status = result->status;
    record->user_us = result->user_us;
    record->system_us = result->system_us;
    record->max_rss_kib = result->max_rss_kib;
    process_store_record(process);
}

void process_note_stopped(struct process *process)
{
    if (process->record.stopped_ns)
        return;
    timer_stop(&process->ending);
    process->record.stopped_ns = clock_wall_ns();
    if (!process->record.has_exited)
        process->record.end = CTL_END_LOST;
    if (process->record.pid)
        process_store_record(process);
    notify_waiters(process, NULL);
}

void process_replay(const struct process *process, struct ring_buffer *ring)
{
    int dir_fd = process->sandbox->process_dir_fd;
    const char *name = process->record.name;
    struct process_log log;
    uint64_t at;

    ring_buffer_done(ring);
    if (process_log_find(dir_fd, name, &log) < 0)
        return;
    autofree char *bytes = xalloc(PROCESS_REPLAY_BYTES);
    at = log.end - log.first > PROCESS_REPLAY_BYTES ? log.end - PROCESS_REPLAY_BYTES : log.first;
    ring->lost = at;
    while (at < process->log.end) {
        ssize_t n = process_log_read(dir_fd, name, &log, at, bytes, PROCESS_REPLAY_BYTES);

        if (n <= 0)
            return;
        ring_buffer_add(ring, bytes, (size_t) n);
        at += (uint64_t) n;
    }
}

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
    task_kill(process->task, SIGKILL, INIT_KILL_TREE, 0);
    timer_start(&process->ending, &process->sandbox->reactor, KILL_WAIT_MS, at_ending, process);
}

int process_end(struct sandbox *sandbox, struct client *client, uint64_t tag, const char *name, uint32_t grace_ms,
                struct err *err)
{
    struct process *process = sandbox->processes;
    struct process_waiter *waiter;

    while (process && (process->record.stopped_ns || strcmp(process->record.name, name) != 0))
        process = process->next;
    if (!process)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no process '%s'", name);
    waiter = xnew(struct process_waiter);
    *waiter = (struct process_waiter){ .next = process->waiters, .client = client, .tag = tag };
    process->waiters = waiter;
    if (grace_ms > 0)
        task_kill(process->task, SIGTERM, INIT_KILL_TREE, 0);
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
