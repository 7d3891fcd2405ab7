#include "runtime/bwrap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "runtime/bwrap_args.h"
#include "runtime/stage.h"

#define INFO_MAX_BYTES 4096
#define START_WAIT_MS 30000
#define FDS_MAX 64
#define ARGV_MAX 64

struct bwrap_runtime {
    struct runtime runtime; /* first, so that a pointer to one is a pointer to the other */
    struct bwrap_probe probe;
    struct cgroup_tree *tree; /* owned; NULL until a sandbox needs a cgroup */
};

/* The descriptors for one start. */
struct bwrap_start {
    int args_ours, args_theirs;     /* owned; a stream socket, because bwrap reads until its end */
    int info;                       /* owned; a memory file into which bwrap writes init's pid */
    int output_theirs;              /* owned */
    int procs_fds[CGROUP_DIRS_MAX]; /* owned */
    size_t procs_count;
};

static void start_done(struct bwrap_start *start)
{
    cleanup_fd(&start->args_ours);
    cleanup_fd(&start->args_theirs);
    cleanup_fd(&start->info);
    cleanup_fd(&start->output_theirs);
    for (size_t i = 0; i < start->procs_count; i++)
        close(start->procs_fds[i]);
}

static int start_init(struct bwrap_start *start, struct runtime_process *process)
{
    int pair[2];

    *start = (struct bwrap_start){ .args_ours = -1, .args_theirs = -1, .info = -1, .output_theirs = -1 };
    /* A socket rather than a pipe, so that writing to a bwrap that has died is an error and not a signal. */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    start->args_ours = pair[0];
    start->args_theirs = pair[1];
    /* Not a pipe: if we die, writing to it would kill bwrap before it has released its child, which would then wait for
     * ever. */
    start->info = memfd_create("info", MFD_CLOEXEC);
    if (start->info < 0 || pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    process->output_fd = pair[0];
    start->output_theirs = pair[1];
    return fd_set_nonblock(process->output_fd, true);
}

/* Since Linux 5.14 RLIMIT_NPROC counts per user namespace. Set inside the sandbox's namespace, it limits this sandbox alone,
 * whatever else its user runs. */
static bool nproc_counts_per_namespace(void)
{
    struct utsname name;
    int major = 0, minor = 0;

    return uname(&name) == 0 && sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
           (major > 5 || (major == 5 && minor >= 14));
}

/* Applies the default memory limit if a cgroup can enforce it. Otherwise there is none, which 'agentfense doctor' reports. */
static bool take_default_memory(struct bwrap_runtime *self, struct runtime_limits *limits)
{
    struct err err = ERR_NONE;

    if (!limits->memory_default_bytes || (!self->tree && cgroup_tree_new(NULL, &self->tree, &err) < 0) ||
        !cgroup_tree_find(self->tree, CGROUP_MEMORY, NULL))
        return false;
    limits->memory_bytes = limits->memory_default_bytes;
    return true;
}

/* Moving a process into a cgroup costs up to 10 ms per start, so a cgroup is made only if a limit needs it. Pids alone need
 * one only if a number was requested, which should also cause an event, or if the kernel has no other way. */
static int make_cgroup(struct bwrap_runtime *self, const struct runtime_spec *spec, struct runtime_process *process,
                       struct err *err)
{
    struct runtime_limits *limits = &process->limits;
    bool is_default = !limits->memory_bytes && take_default_memory(self, limits);
    bool others = spec->own_cgroup || limits->memory_bytes || limits->cpu_quota_us || limits->cpu_shares;
    bool by_rlimit = nproc_counts_per_namespace();
    bool wants_pids = others || spec->limits.pids || !by_rlimit;
    bool pids_here;
    int r = wants_pids && !self->tree ? cgroup_tree_new(NULL, &self->tree, err) : 0;

    if (r < 0)
        return r;
    pids_here = wants_pids && cgroup_tree_find(self->tree, CGROUP_PIDS, NULL);
    if (!pids_here && !by_rlimit && spec->limits.pids)
        return err_set(
            err, ERR_FAILED_PRECONDITION, -ENOTSUP,
            "a pids limit cannot be enforced here: there is no pids cgroup for us, and before Linux 5.14 no other way");
    if (!pids_here)
        process->nproc_rlimit = by_rlimit ? runtime_spec_pids(spec) : 0;
    if (!pids_here && !by_rlimit)
        limits->pids = 0; /* the default, which nothing enforces */
    if (!others && !pids_here)
        return 0;
    r = cgroup_new(self->tree, spec->id, limits, pids_here ? runtime_spec_pids(spec) : 0, &process->cgroup, err);
    if (r < 0 && is_default) {
        /* Nobody requested this limit: try the others without it. */
        log_warn("the default limit of memory cannot be enforced", LOG_STR("reason", err->text));
        limits->memory_bytes = limits->memory_default_bytes = 0;
        *err = ERR_NONE;
        return make_cgroup(self, spec, process, err);
    }
    return r < 0 ? r : cgroup_watch_new(process->cgroup, &process->watch, err);
}

/* No death signal is set here: bwrap sets one for itself when its child hardly needs it any more. Killed before that, it
 * would leave a child that waits for its ids for ever. If we die that early, bwrap goes on and starts init, whose socket is
 * closed by then. bwrap_orphan.h handles the remaining gap. */
static int bwrap_spawn(const struct bwrap_runtime *self, const struct runtime_spec *spec, const struct bwrap_args *args,
                       const struct bwrap_start *start, struct proc *ret, struct err *err)
{
    const struct proc_rlimit no_core = { RLIMIT_CORE, { 0, 0 } };
    const struct proc_user user = { .uid = spec->uid, .gid = spec->gid };
    const char *argv[ARGV_MAX] = { NULL };
    size_t argc = 0, count, fd_count = 0;
    const struct proc_fd *more = bwrap_args_fds(args, &count);
    struct proc_fd fds[FDS_MAX];

    while (bwrap_call[argc]) {
        argv[argc] = bwrap_call[argc];
        argc++;
    }
    for (const char *const *arg = spec->init_argv; arg && *arg; arg++) {
        if (argc == ARGV_MAX - 1)
            return err_invalid(err, "too many arguments for init");
        argv[argc++] = *arg;
    }
    if (spec->init_socket >= 0)
        fds[fd_count++] = (struct proc_fd){ spec->init_socket, RUNTIME_INIT_FD };
    fds[fd_count++] = (struct proc_fd){ start->output_theirs, STDERR_FILENO };
    fds[fd_count++] = (struct proc_fd){ start->args_theirs, BWRAP_ARGS_FD };
    fds[fd_count++] = (struct proc_fd){ start->info, BWRAP_INFO_FD };
    for (size_t i = 0; i < count && fd_count < FDS_MAX; i++)
        fds[fd_count++] = more[i];
    const struct proc_spec child = { .path = self->probe.path,
                                     .argv = argv,
                                     .fds = fds,
                                     .fd_count = fd_count,
                                     .cwd = "/",
                                     .user = spec->uid == geteuid() && spec->gid == getegid() ? NULL : &user,
                                     .rlimits = &no_core,
                                     .rlimit_count = 1,
                                     .joins = start->procs_fds,
                                     .join_count = start->procs_count };
    return proc_spawn(&child, ret, err);
}

static int send_args(const struct bwrap_args *args, struct bwrap_start *start)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    size_t sent = 0;

    bwrap_args_render(args, &text);
    while (sent < text.len) {
        ssize_t n = send(start->args_ours, text.data + sent, text.len - sent, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR)
            return -errno;
        sent += n > 0 ? (size_t) n : 0;
    }
    close(steal_fd(&start->args_ours));
    return 0;
}

/* Parses {"child-pid": 4711, ...}. bwrap itself writes it, before any of the agent's code runs. 0 if it is incomplete. */
static pid_t parse_init_pid(int info)
{
    static const char key[] = "\"child-pid\":";
    char text[INFO_MAX_BYTES];
    ssize_t n = pread(info, text, sizeof(text) - 1, 0);
    const char *at;

    text[n > 0 ? n : 0] = '\0';
    at = strchr(text, '}') ? strstr(text, key) : NULL;
    return at ? (pid_t) strtol(at + strlen(key), NULL, 10) : 0;
}

/* Polls, because a memory file cannot notify us. bwrap needs a millisecond or two. */
static int wait_init_pid(struct runtime_process *process, const struct bwrap_start *start)
{
    const struct timespec step = { .tv_nsec = 100000 };
    struct pollfd end = { .fd = process->proc.pidfd, .events = POLLIN };
    int64_t deadline_ns = clock_now_ns() + START_WAIT_MS * CLOCK_NS_PER_MS;
    int status;

    while ((process->init_pid = parse_init_pid(start->info)) <= 0) {
        bool ended = end.fd >= 0 ? ppoll(&end, 1, &step, NULL) > 0 : proc_wait_timeout(&process->proc, 1, &status) == 0;

        if (ended && parse_init_pid(start->info) <= 0)
            return -EIO;
        if (clock_now_ns() > deadline_ns)
            return -ETIMEDOUT;
    }
    return 0;
}

/* bwrap is init's parent and reaps it, so the pid may belong to another process by now. The parent in /proc, read after the
 * pidfd was opened, proves that it does not. If init is gone already, bwrap ends too. */
static void open_init(struct runtime_process *process)
{
    autofd int fd = (int) syscall(SYS_pidfd_open, process->init_pid, 0);
    char text[512], *paren;
    int parent = 0;

    proc_read_file(process->init_pid, "stat", text, sizeof(text));
    paren = strrchr(text, ')');
    if (paren && sscanf(paren, ") %*c %d", &parent) == 1 && parent == process->proc.pid)
        process->init_pidfd = steal_fd(&fd);
}

static int open_cgroup_procs(const struct cgroup *cgroup, struct bwrap_start *start, struct err *err)
{
    int r = cgroup ? cgroup_open_procs(cgroup, start->procs_fds) : 0;

    if (r < 0)
        return err_errno(err, r, "opening the sandbox's cgroup");
    start->procs_count = (size_t) r;
    return 0;
}

static int bwrap_launch(struct bwrap_runtime *self, const struct runtime_spec *spec, struct runtime_process *process,
                        struct bwrap_start *start, struct err *err)
{
    autoptr(bwrap_args) args = NULL;
    int r;

    if ((r = bwrap_args_new(spec, &self->probe, "", &args, err)) < 0)
        return r;
    if ((r = open_cgroup_procs(process->cgroup, start, err)) < 0 ||
        (r = bwrap_spawn(self, spec, args, start, &process->proc, err)) < 0)
        return r;
    close(steal_fd(&start->args_theirs));
    close(steal_fd(&start->output_theirs));
    /* bwrap is still reading its arguments: no child and no namespace of it could remain outside the cgroup. */
    if (process->cgroup && start->procs_count < process->cgroup->count &&
        (r = cgroup_attach(process->cgroup, process->proc.pid, err)) < 0)
        return r;
    if (spec->stage && (r = stage_build(spec, args, err)) < 0)
        return r;
    if (spec->await_workspace && (r = spec->await_workspace(spec->cookie, err)) < 0)
        return r;
    if (send_args(args, start) < 0 || wait_init_pid(process, start) < 0)
        return runtime_explain(process, err);
    open_init(process);
    return 0;
}

static int on_start(struct runtime *runtime, const struct runtime_spec *spec, struct runtime_process *process, struct err *err)
{
    struct bwrap_runtime *self = (struct bwrap_runtime *) runtime;
    struct bwrap_start start;
    int r;

    r = make_cgroup(self, spec, process, err);
    if (r < 0)
        return r;
    r = start_init(&start, process);
    if (r < 0)
        err_errno(err, r, "starting bubblewrap");
    else
        r = bwrap_launch(self, spec, process, &start, err);
    start_done(&start);
    return r;
}

/* bwrap's death signal ends init too, even if we have no pidfd of init. */
static int on_kill(struct runtime_process *process)
{
    return proc_signal(&process->proc, SIGKILL);
}

static void on_free(struct runtime *runtime)
{
    struct bwrap_runtime *self = (struct bwrap_runtime *) runtime;

    cgroup_tree_free(self->tree);
    free(self);
}

static const struct runtime_ops ops = {
    .start = on_start,
    .kill = on_kill,
    .free = on_free,
};

struct runtime *bwrap_runtime_of_probe(const struct bwrap_probe *probe)
{
    struct bwrap_runtime *self = xnew(struct bwrap_runtime);

    self->runtime.ops = &ops;
    self->probe = *probe;
    return &self->runtime;
}

int bwrap_runtime_new(struct runtime **ret, struct err *err)
{
    struct bwrap_probe probe;
    int r = bwrap_probe_file(NULL, &probe, err);

    if (r == 0)
        *ret = bwrap_runtime_of_probe(&probe);
    return r;
}
