/*
 * agentfense-supervisor: one process for one sandbox, as long as it runs.
 *
 *     agentfense-supervisor [--owner-fd N | --report-fd N] [--base-fd N] DIR
 *     agentfense-supervisor --try DIR
 *
 * The second form tries in DIR what the drivers need: supervisor/trial.h. The first form runs a sandbox. DIR is the sandbox's
 * directory (wire/sandbox_spec.h), and DIR/ctl its control socket (wire/ctl_proto.h). --owner-fd and --report-fd are an
 * inherited socket that serves as a control connection too, and on which a failure to start is reported. When the owner's
 * connection ends, the sandbox ends; otherwise it runs until a STOP request or SIGTERM. If this process is killed, everything
 * in the sandbox ends with it; acknowledged writes are in DIR/delta, and the next start continues with them.
 *
 * --base-fd is the open directory that the sandbox is over. Our starter has checked that very directory, while its name may
 * lead elsewhere by now.
 *
 * Exits with 0 if the sandbox was stopped, 1 if it failed, 2 for wrong arguments.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/coverage.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/sanitized.h"
#include "supervisor/boot.h"
#include "supervisor/boot_prepare.h"
#include "supervisor/client.h"
#include "supervisor/ctl_server.h"
#include "supervisor/leftovers.h"
#include "supervisor/process.h"
#include "supervisor/sandbox.h"
#include "supervisor/trial.h"

#define LOCK_TRIES 50
#define LOCK_PAUSE_MS 10
#define LOG_BYTES_MAX (1 << 20)
#define TERM_GRACE_MS 5000

/* Descriptors from our starter; -1: none. */
struct inherited {
    int parent_fd, base_fd;
    bool is_owner;
};

static int supervisor_usage(void)
{
    fprintf(stderr, "usage: agentfense-supervisor [--owner-fd N | --report-fd N] [--base-fd N] DIR\n"
                    "       agentfense-supervisor --try DIR\n"
                    "Started by agentfense; see 'agentfense help' for what people use.\n");
    return 2;
}

/* Allows one supervisor per sandbox. The kernel releases the lock however we end. Processes that only test the lock hold it
 * for a moment, so we try several times. */
static int lock_dir(int dir_fd, int *ret_fd, struct err *err)
{
    autofd int fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return err_errno(err, -errno, "opening the sandbox's lock");
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            *ret_fd = steal_fd(&fd);
            return 0;
        }
        poll(NULL, 0, LOCK_PAUSE_MS);
    }
    return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "the sandbox is running already");
}

/* From here on nobody reads our standard error. The messages of earlier supervisors are kept up to a limit. */
static void open_log(int dir_fd)
{
    autofd int fd = openat(dir_fd, "log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat st;

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && st.st_size > LOG_BYTES_MAX && ftruncate(fd, 0) < 0)
        return;
    dup2(fd, STDERR_FILENO);
}

/* We inherit the sandbox's orphans. The runtime waits for its first process. */
static void supervisor_reap_orphans(const struct sandbox *sandbox)
{
    for (;;) {
        siginfo_t info = { 0 };

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
            return;
        if (sandbox->process && info.si_pid == sandbox->process->proc.pid)
            return;
        waitpid(info.si_pid, NULL, WNOHANG);
    }
}

static void on_signal(uint32_t events, void *cookie)
{
    struct sandbox *sandbox = cookie;
    struct signalfd_siginfo info;

    (void) events;
    if (read(sandbox->signal_fd, &info, sizeof(info)) != sizeof(info))
        return;
    if (info.ssi_signo == SIGCHLD)
        supervisor_reap_orphans(sandbox);
    else if (info.ssi_signo == SIGTERM)
        sandbox_stop(sandbox, TERM_GRACE_MS);
}

static int supervisor_prepare(struct sandbox *sandbox, int parent_fd, bool is_owner, struct err *err)
{
    struct client *parent = NULL;
    int r = proc_open_signals(SIGCHLD);

    sandbox->signal_fd = r;
    if (r >= 0)
        r = watch_start(&sandbox->signal_watch, &sandbox->reactor, sandbox->signal_fd, EPOLLIN, on_signal, sandbox);
    if (r < 0)
        return err_errno(err, r, "waiting for signals");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return err_errno(err, -errno, "becoming a subreaper");
    if (parent_fd >= 0) {
        r = client_new(sandbox, parent_fd, &parent);
        if (r < 0)
            return err_errno(err, r, "taking the socket of whoever started us");
        sandbox->owner = is_owner ? parent : NULL;
    }
    return ctl_server_open(sandbox, err);
}

static int supervisor_run(const char *dir_path, const struct inherited *from, struct err *err)
{
    static struct sandbox sandbox;
    autofd int dir_fd = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    autofd int lock_fd = -1;
    int r;

    if (dir_fd < 0)
        return err_errno(err, -errno, "'%s'", dir_path);
    r = lock_dir(dir_fd, &lock_fd, err);
    if (r == 0)
        r = sandbox_init(&sandbox, dir_path, dir_fd, lock_fd, err);
    if (r < 0)
        return r;
    steal_fd(&dir_fd);
    steal_fd(&lock_fd);
    r = supervisor_prepare(&sandbox, from->parent_fd, from->is_owner, err);
    if (r < 0)
        return r;
    open_log(sandbox.dir_fd);
    process_recover_all(&sandbox);
    r = boot_open_base(&sandbox, from->base_fd, err);
    if (r == 0)
        r = boot_enter_namespace(&sandbox, err);
    if (r < 0)
        sandbox_fail(&sandbox, err);
    else
        boot(&sandbox);
    r = reactor_run(&sandbox.reactor);
    if (r == 0 && sandbox.state == CTL_STATE_FAILED)
        r = -ECANCELED;
    sandbox_done(&sandbox);
    if (!sandbox.has_swept)
        leftovers_sweep_detached(dir_path);
    return r < 0 ? err_errno(err, r, "serving the sandbox") : 0;
}

/* Reports a failure that precedes the sandbox to our starter, instead of only logging it. */
static bool report_to_parent(int fd, const struct err *err)
{
    struct ctl_reply reply = { .type = CTL_REPLY_STATE, .state = { .state = CTL_STATE_FAILED, .code = err->code } };
    char payload[CTL_PROTO_SMALL_MAX];
    struct frame frame;

    snprintf(reply.state.text, sizeof(reply.state.text), "%s", err->text);
    return fd >= 0 && ctl_reply_encode(&reply, payload, sizeof(payload), &frame) == 0 &&
           frame_send(fd, &frame, FRAME_NOWAIT) == 0;
}

static int parse_fd(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);

    return *text && !*end && n > 2 && n < INT_MAX && fd_cloexec((int) n, true) == 0 ? (int) n : -1;
}

/* Not with exit(): a sweeping thread may still run. */
static _Noreturn void supervisor_exit(int code)
{
    sanitized_find_leaks();
    coverage_save();
    _exit(code);
}

static int work_at(const char *given, bool is_trial, const struct inherited *from, struct err *err)
{
    autofree char *real = realpath(given, NULL);
    const char *dir_path = real ? real : given;

    return is_trial ? trial_run(dir_path, err) : supervisor_run(dir_path, from, err);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "owner-fd", required_argument, NULL, 'o' },
        { "report-fd", required_argument, NULL, 'r' },
        { "base-fd", required_argument, NULL, 'b' },
        { "try", no_argument, NULL, 't' },
        { 0 },
    };
    struct inherited from = { .parent_fd = -1, .base_fd = -1 };
    struct err err = ERR_NONE;
    bool is_trial = false;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        int *fd = option == 'b' ? &from.base_fd : &from.parent_fd;

        if (is_trial || option == '?' || *fd >= 0)
            return supervisor_usage();
        is_trial = option == 't';
        if (!is_trial && (*fd = parse_fd(optarg)) < 0)
            return supervisor_usage();
        if (fd == &from.parent_fd && !is_trial && fd_set_nonblock(*fd, true) < 0)
            return supervisor_usage();
        from.is_owner |= option == 'o';
    }
    if (optind + 1 != argc || argv[optind][0] != '/')
        return supervisor_usage();
    if (work_at(argv[optind], is_trial, &from, &err) == 0)
        supervisor_exit(0);
    if (!report_to_parent(from.parent_fd, &err))
        log_error("the supervisor ends", LOG_STR("error", err.text));
    supervisor_exit(1);
}
