#include "runtime/runtime.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "wire/runtime_type.h"

#define END_WAIT_MS 10000
#define EXPLAIN_WAIT_MS 1000
#define OUTPUT_MAX_BYTES 600

#define RUNTIME_DECLARE(type_name, ...) int type_name##_runtime_new(struct runtime **ret, struct err *err);
#define RUNTIME_CONSTRUCTOR(type_name, ...) { #type_name, type_name##_runtime_new },

RUNTIME_TYPES(RUNTIME_DECLARE)

static const struct {
    const char *name;
    int (*new)(struct runtime **ret, struct err *err);
} constructors[] = { RUNTIME_TYPES(RUNTIME_CONSTRUCTOR) };

int runtime_new(const char *name, struct runtime **ret, struct err *err)
{
    const struct runtime_type *type;

    for (size_t i = 0; i < ARRAY_LEN(constructors); i++)
        if (strcmp(constructors[i].name, name) == 0)
            return constructors[i].new(ret, err);
    return err_wrap(err, runtime_type_parse(name, &type, err), "runtime");
}

void runtime_free(struct runtime *runtime)
{
    if (runtime)
        runtime->ops->free(runtime);
}

int runtime_start(struct runtime *runtime, const struct runtime_spec *spec, struct runtime_process **ret, struct err *err)
{
    struct runtime_process *process;
    int r = runtime_spec_check(spec, err);

    if (r < 0)
        return r;
    process = xnew(struct runtime_process);
    *process = (struct runtime_process){
        .runtime = runtime, .proc = PROC_NONE, .init_pidfd = -1, .output_fd = -1, .limits = spec->limits
    };
    process->limits.pids = runtime_spec_pids(spec);
    r = runtime->ops->start(runtime, spec, process, err);
    if (r < 0) {
        runtime_process_free(process);
        return r;
    }
    *ret = process;
    return 0;
}

/* init is the first process of its pid namespace, so the kernel ends everything inside with it. The cgroup is killed too,
 * because it alone contains a process that was moved in but never entered the namespace. A bwrap that is killed before it
 * has tied init to itself leaves init behind, so init's end is awaited too. */
static void end_process(struct runtime_process *process)
{
    struct pollfd init = { .fd = process->init_pidfd, .events = POLLIN };
    int status;

    if (process->proc.pid <= 0)
        return;
    if (process->init_pidfd >= 0)
        syscall(SYS_pidfd_send_signal, process->init_pidfd, SIGKILL, NULL, 0);
    process->runtime->ops->kill(process);
    if (process->cgroup)
        cgroup_kill(process->cgroup);
    if (proc_wait_timeout(&process->proc, END_WAIT_MS, &status) == 0 && process->init_pidfd >= 0)
        poll(&init, 1, END_WAIT_MS);
}

void runtime_process_free(struct runtime_process *process)
{
    if (!process)
        return;
    end_process(process);
    if (process->runtime->ops->release)
        process->runtime->ops->release(process);
    if (process->cgroup)
        cgroup_remove(process->cgroup);
    cgroup_watch_free(process->watch);
    cgroup_free(process->cgroup);
    cleanup_fd(&process->init_pidfd);
    cleanup_fd(&process->output_fd);
    proc_done(&process->proc);
    free(process);
}

int runtime_freeze(struct runtime_process *process, bool on)
{
    return process->cgroup ? cgroup_freeze(process->cgroup, on) : -ENOTSUP;
}

int runtime_event_fd(const struct runtime_process *process)
{
    if (process->runtime->ops->event_fd)
        return process->runtime->ops->event_fd(process);
    return process->watch ? cgroup_watch_fd(process->watch) : -1;
}

int runtime_next_event(struct runtime_process *process, struct runtime_event *ret)
{
    struct cgroup_hits now;

    if (process->runtime->ops->next_event)
        return process->runtime->ops->next_event(process, ret);
    if (!process->watch)
        return 0;
    cgroup_watch_read(process->watch, &now);
    if (now.memory_kills > process->reported.memory_kills) {
        *ret = (struct runtime_event){ RUNTIME_EVENT_MEMORY, now.memory_kills - process->reported.memory_kills,
                                       process->limits.memory_bytes, NULL };
        process->reported.memory_kills = now.memory_kills;
        return 1;
    }
    if (now.pids_refused > process->reported.pids_refused) {
        *ret = (struct runtime_event){ RUNTIME_EVENT_PIDS, now.pids_refused - process->reported.pids_refused,
                                       process->limits.pids, NULL };
        process->reported.pids_refused = now.pids_refused;
        return 1;
    }
    return 0;
}

/* bwrap's messages for common failures, with advice. */
static const struct {
    const char *has, *advice;
} advices[] = {
    { "No permissions to creat", "user namespaces are forbidden to this user; 'agentfense doctor' says how to allow them" },
    { "setting up uid map", "user namespaces are restricted (AppArmor?); 'agentfense doctor' says how to allow them" },
    { "Creating new namespace failed",
      "the kernel or a container around us allows no new namespaces; see 'agentfense doctor'" },
    { "loopback: Failed", "network namespaces are restricted (AppArmor?); see 'agentfense doctor'" },
    { "Can't mount proc", "a container around us hides parts of /proc, so no new one may be mounted; see 'agentfense doctor'" },
    { "Can't find source path", "the sandbox's user must be able to reach it: every directory above needs search permission" },
};

static const char *advice_for(const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(advices); i++)
        if (strstr(text, advices[i].has))
            return advices[i].advice;
    return NULL;
}

int runtime_explain(struct runtime_process *process, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;
    char text[OUTPUT_MAX_BYTES];
    const char *advice;
    ssize_t n;
    int status = 0, r = 0;

    if (proc_wait_timeout(&process->proc, EXPLAIN_WAIT_MS, &status) < 0)
        return err_set(err, ERR_UNAVAILABLE, -ETIMEDOUT, "the sandbox runs, but init does not answer");
    if (process->runtime->ops->explain && (r = process->runtime->ops->explain(process, err)) < 0)
        return r;
    n = process->output_fd < 0 ? 0 : read(process->output_fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    buf_add_escaped(&shown, text, strlen(text));
    advice = advice_for(text);
    if (shown.len == 0)
        return err_set(err, ERR_UNAVAILABLE, -EIO, "the sandbox ended at once, with code %d", proc_exit_code(status));
    return err_set(err, ERR_UNAVAILABLE, -EIO, "the sandbox did not start: %s%s%s%s", shown.data, advice ? " (" : "",
                   advice ? advice : "", advice ? ")" : "");
}
