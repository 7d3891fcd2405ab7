#include "runtime/mock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/mem.h"

#define ARGV_MAX 64

struct mock_runtime {
    struct runtime runtime; /* first, so that a pointer to one is a pointer to the other */
    int fail_with;          /* 0: does not fail */
    char fail_text[256];
};

struct mock_cookie {
    bool has_event;
    struct runtime_event event;
};

static int mock_spawn(const struct runtime_spec *spec, int output, struct proc *ret, struct err *err)
{
    const struct proc_fd fds[] = { { output, 2 }, { spec->init_socket, RUNTIME_INIT_FD } };
    const char *argv[ARGV_MAX], *env[] = { "PATH=" RUNTIME_PATH, NULL };
    size_t argc = 0;

    argv[argc++] = spec->init_path;
    for (const char *const *arg = spec->init_argv; arg && *arg && argc < ARGV_MAX - 1; arg++)
        argv[argc++] = *arg;
    argv[argc] = NULL;
    const struct proc_spec child = { .argv = argv,
                                     .envp = env,
                                     .fds = fds,
                                     .fd_count = spec->init_socket >= 0 ? 2 : 1,
                                     .cwd = spec->workspace,
                                     .new_session = true,
                                     .death_signal = SIGKILL };
    return proc_spawn(&child, ret, err);
}

static int on_start(struct runtime *runtime, const struct runtime_spec *spec, struct runtime_process *process, struct err *err)
{
    struct mock_runtime *self = (struct mock_runtime *) runtime;
    int r = self->fail_with, fds[2];

    if (r < 0) {
        self->fail_with = 0;
        return err_set(err, ERR_UNAVAILABLE, r, "%s", self->fail_text);
    }
    if (!spec->init_path)
        return err_invalid(err, "the mock runtime needs init as a path");
    if (spec->await_workspace && (r = spec->await_workspace(spec->cookie, err)) < 0)
        return r;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "starting a mock sandbox");
    autofd int theirs = fds[1];
    process->output_fd = fds[0];
    fd_set_nonblock(process->output_fd, true);
    process->cookie = xnew(struct mock_cookie);
    process->nproc_rlimit = 0;
    r = mock_spawn(spec, theirs, &process->proc, err);
    process->init_pid = process->proc.pid;
    return r;
}

/* Kills the session's process group, as a pid namespace would end. */
static int on_kill(struct runtime_process *process)
{
    if (process->proc.reaped || process->proc.pid <= 0)
        return -ESRCH;
    return kill(-process->proc.pid, SIGKILL) < 0 ? -errno : 0;
}

static void on_release(struct runtime_process *process)
{
    free(process->cookie);
}

static int on_next_event(struct runtime_process *process, struct runtime_event *ret)
{
    struct mock_cookie *cookie = process->cookie;

    if (!cookie->has_event)
        return 0;
    cookie->has_event = false;
    *ret = cookie->event;
    return 1;
}

static void on_free(struct runtime *runtime)
{
    free(runtime);
}

static const struct runtime_ops ops = {
    .start = on_start,
    .kill = on_kill,
    .release = on_release,
    .next_event = on_next_event,
    .free = on_free,
};

int mock_runtime_new(struct runtime **ret, struct err *err)
{
    struct mock_runtime *self = xnew(struct mock_runtime);

    (void) err;
    self->runtime.ops = &ops;
    *ret = &self->runtime;
    return 0;
}

void mock_fail_next(struct runtime *runtime, int r, const char *text)
{
    struct mock_runtime *self = (struct mock_runtime *) runtime;

    self->fail_with = r;
    snprintf(self->fail_text, sizeof(self->fail_text), "%s", text);
}

void mock_push_event(struct runtime_process *process, const struct runtime_event *event)
{
    struct mock_cookie *cookie = process->cookie;

    cookie->event = *event;
    cookie->has_event = true;
}
