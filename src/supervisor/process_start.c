/* How a process in the background begins: its record, its log, its pipes; and what an earlier supervisor left. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "supervisor/command.h"
#include "supervisor/process_int.h"
#include "supervisor/sandbox.h"

static int open_dir(struct sandbox *sandbox)
{
    int fd;

    if (sandbox->process_dir_fd >= 0)
        return 0;
    fd = process_dir_open(sandbox->dir_fd, true);
    if (fd < 0)
        return fd;
    sandbox->process_dir_fd = fd;
    return 0;
}

/* One more is to come. */
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

static int open_output(struct process *process, int fds[3], struct err *err)
{
    struct sandbox *sandbox = process->run.sandbox;
    int r = log_file_open(&process->log, sandbox->process_dir_fd, process->record.name);

    if (r == 0)
        r = process_record_store(sandbox->process_dir_fd, &process->record);
    if (r < 0)
        return err_errno(err, r, "making the log of a process");
    if (process->record.is_tty)
        return 0;
    fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    r = fds[0] < 0 ? -errno
                   : pipe_reader_open(&process->reader, &sandbox->reactor, process_add_output, process_at_output_end, process,
                                      &fds[1]);
    if (r < 0)
        return err_errno(err, r, "making a pipe for a process");
    fds[2] = fds[1];
    sandbox_chown_pipe(sandbox, fds[1]);
    return 0;
}

static int process_new(struct sandbox *sandbox, struct client *client, uint64_t tag, const struct ctl_run *asked,
                       const struct ctl_command *wanted, const char *name, struct process **ret)
{
    struct process *process = xnew(struct process);
    struct ctl_run detached = *asked;
    int r;

    detached.flags |= CTL_RUN_DETACHED;
    process->reader = PIPE_READER_NONE;
    process->tty_input = TTY_INPUT_NONE;
    process->log = LOG_FILE_NONE;
    r = run_init(&process->run, sandbox, &process_run_ops, client, tag, &detached, name);
    if (r < 0) {
        free(process);
        return r;
    }
    memcpy(process->record.name, process->run.name, sizeof(process->record.name));
    process->record.is_tty = asked->flags & CTL_RUN_TTY;
    process->record.started_ns = clock_wall_ns();
    process->record.command = command_text(wanted->argv, PROCESS_COMMAND_MAX - 1);
    process->record.note = xdup(wanted->session);
    process->next = sandbox->processes;
    process->slot = &sandbox->processes;
    if (process->next)
        process->next->slot = &process->next;
    sandbox->processes = process;
    *ret = process;
    return 0;
}

int process_start(struct sandbox *sandbox, struct client *client, uint64_t tag, const struct ctl_run *asked,
                  const struct ctl_command *wanted, struct err *err)
{
    struct process *process = NULL;
    char made[ID_TEXT_MAX];
    const char *name = wanted->name;
    int fds[3] = { -1, -1, -1 };
    int r;

    if (!*name)
        id_new(PROCESS_ID_PREFIX, made);
    name = *name ? name : made;
    /* It is the name of files. */
    if (!id_is_valid(PROCESS_ID_PREFIX, name))
        return err_invalid(err, "'%s' is no name of a process", name);
    r = open_dir(sandbox);
    if (r < 0)
        return err_errno(err, r, "opening the directory of processes");
    forget_oldest(sandbox);
    r = process_new(sandbox, client, tag, asked, wanted, name, &process);
    if (r < 0)
        return err_set(err, ERR_ALREADY_EXISTS, r, "there is a process named '%s' already", name);
    exec_of_pid_set(&sandbox->exec_of_pid, process, 0, process->run.name);
    r = open_output(process, fds, err);
    if (r == 0)
        r = command_spawn(sandbox, &process->task, &process_task_ops, asked, wanted, fds, err);
    cleanup_fd(&fds[0]);
    cleanup_fd(&fds[1]);
    if (r < 0)
        process_free(process);
    return r;
}
