#include "runtime/docker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/program.h"
#include "runtime/docker_order.h"
#include "runtime/docker_report.h"

#define LAST_WAIT_MS 1000

struct docker_runtime {
    struct runtime runtime; /* first, so that a pointer to one is a pointer to the other */
    char *program;          /* owned */
};

struct docker_cookie {
    /* owned; we keep both ends, because ours would otherwise stay readable for ever after the program's end */
    int report_fd, report_theirs;
    struct err failure;
    struct docker_report last; /* lends its text */
};

static int write_order(const struct runtime_spec *spec)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    docker_order_encode(spec, &text);
    return fd_memory_file("order", text.data, text.len);
}

/* The death signal is SIGTERM, not SIGKILL, because the program must remove the container. */
static int docker_spawn(const struct docker_runtime *self, const struct runtime_spec *spec, int order, int output, int report,
                        struct proc *ret, struct err *err)
{
    const struct proc_fd fds[] = { { output, STDERR_FILENO },
                                   { spec->init_socket, DOCKER_INIT_FD },
                                   { order, DOCKER_ORDER_FD },
                                   { report, DOCKER_REPORT_FD } };
    const char *argv[] = { "agentfense-container", spec->id, NULL };
    const struct proc_spec child = { .path = self->program,
                                     .argv = argv,
                                     .fds = fds,
                                     .fd_count = ARRAY_LEN(fds),
                                     .cwd = "/",
                                     .new_session = true,
                                     .death_signal = SIGTERM };
    return proc_spawn(&child, ret, err);
}

static int open_reports(struct runtime_process *process)
{
    struct docker_cookie *cookie = process->cookie;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    cookie->report_fd = pair[0];
    cookie->report_theirs = pair[1];
    return 0;
}

static int on_start(struct runtime *runtime, const struct runtime_spec *spec, struct runtime_process *process, struct err *err)
{
    const struct docker_runtime *self = (struct docker_runtime *) runtime;
    struct docker_cookie *cookie = xnew(struct docker_cookie);
    autofd int order = -1, theirs = -1;
    int r, fds[2];

    *cookie = (struct docker_cookie){ .report_fd = -1, .report_theirs = -1 };
    process->cookie = cookie;
    process->keeps_time = true;
    if (!spec->container || !spec->init_path || !spec->workspace || spec->init_socket < 0)
        return err_invalid(err, "a container needs an image, a workspace, and init by a path and with a socket");
    /* The engine reads the mount when the container is created. */
    if (spec->await_workspace && (r = spec->await_workspace(spec->cookie, err)) < 0)
        return r;
    if ((r = open_reports(process)) < 0 || (r = order = write_order(spec)) < 0 || pipe2(fds, O_CLOEXEC) < 0)
        return err_errno(err, r < 0 ? r : -errno, "starting a container");
    process->output_fd = fds[0];
    theirs = fds[1];
    fd_set_nonblock(process->output_fd, true);
    return docker_spawn(self, spec, order, theirs, cookie->report_theirs, &process->proc, err);
}

/* The program reaps no children, so its pid for init is valid unless init has ended. We trust it: the kernel told it who is
 * at the other end of a socket that only init has. */
static void handle_pid(struct runtime_process *process, uint64_t pid)
{
    if (pid == 0 || pid > INT32_MAX || process->init_pid > 0)
        return;
    process->init_pid = (pid_t) pid;
    process->init_pidfd = (int) syscall(SYS_pidfd_open, process->init_pid, 0);
}

static void handle_failure(struct docker_cookie *cookie, const struct docker_report *report)
{
    enum err_code code = report->number <= ERR_UNAUTHENTICATED ? (enum err_code) report->number : ERR_UNKNOWN;

    err_set(&cookie->failure, code == ERR_OK ? ERR_UNKNOWN : code, -EIO, "%s", report->text);
}

static struct runtime_event event_of(const struct runtime_process *process, const struct docker_report *report)
{
    switch (report->kind) {
    case DOCKER_REPORT_MEMORY:
        return (struct runtime_event){ RUNTIME_EVENT_MEMORY, report->number, process->limits.memory_bytes, NULL };
    case DOCKER_REPORT_PIDS:
        return (struct runtime_event){ RUNTIME_EVENT_PIDS, report->number, process->limits.pids, NULL };
    default:
        return (struct runtime_event){ .kind = RUNTIME_EVENT_PROGRESS, .text = report->text };
    }
}

static int on_next_event(struct runtime_process *process, struct runtime_event *ret)
{
    struct docker_cookie *cookie = process->cookie;
    struct docker_report *report = &cookie->last;
    int r;

    while ((r = docker_report_receive(cookie->report_fd, report)) > 0) {
        if (report->kind == DOCKER_REPORT_STARTED) {
            handle_pid(process, report->number);
        } else if (report->kind == DOCKER_REPORT_FAILED) {
            handle_failure(cookie, report);
        } else {
            *ret = event_of(process, report);
            return 1;
        }
    }
    return r;
}

static int event_fd(const struct runtime_process *process)
{
    return ((const struct docker_cookie *) process->cookie)->report_fd;
}

static int on_explain(struct runtime_process *process, struct err *err)
{
    struct docker_cookie *cookie = process->cookie;
    struct runtime_event ignored;

    while (on_next_event(process, &ignored) > 0)
        ;
    if (cookie->failure.code == ERR_OK)
        return 0;
    if (err)
        *err = cookie->failure;
    return -EIO;
}

/* The program removes the container. */
static int on_kill(struct runtime_process *process)
{
    return proc_signal(&process->proc, SIGTERM);
}

/* By now the program has had enough time for an engine that does not answer. The engine removes the container when it can;
 * otherwise the next sandbox of this state directory does. */
static void on_release(struct runtime_process *process)
{
    struct docker_cookie *cookie = process->cookie;
    int status;

    if (process->proc.pid > 0 && !process->proc.reaped) {
        proc_signal(&process->proc, SIGKILL);
        proc_wait_timeout(&process->proc, LAST_WAIT_MS, &status);
    }
    if (!cookie)
        return;
    cleanup_fd(&cookie->report_fd);
    cleanup_fd(&cookie->report_theirs);
    free(cookie);
}

static void on_free(struct runtime *runtime)
{
    struct docker_runtime *self = (struct docker_runtime *) runtime;

    free(self->program);
    free(self);
}

static const struct runtime_ops ops = {
    .start = on_start,
    .kill = on_kill,
    .release = on_release,
    .event_fd = event_fd,
    .next_event = on_next_event,
    .explain = on_explain,
    .free = on_free,
};

int docker_runtime_new(struct runtime **ret, struct err *err)
{
    autofree char *program = NULL;
    struct docker_runtime *self;
    int r = program_find("agentfense-container", &program, err);

    if (r < 0)
        return r;
    self = xnew(struct docker_runtime);
    self->runtime.ops = &ops;
    self->program = steal_ptr(&program);
    *ret = &self->runtime;
    return 0;
}
