#include "init/loop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "init/channel.h"
#include "init/reaper.h"
#include "init/sweep.h"

/* How long an init that is not pid 1 keeps killing before it exits anyway. */
#define FAREWELL_MS 10000
#define FAREWELL_STEP_MS 50

static char payload[FRAME_PAYLOAD_MAX];

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* init never waits for its supervisor, because kills must go on. No report may be pending. */
static void loop_report(struct loop *loop, const struct init_report *report)
{
    if (channel_report(loop->channel, report, -1, FRAME_NOWAIT) != -EAGAIN)
        return;
    loop->pending = *report;
    loop->has_pending = true;
}

static void report_pending(struct loop *loop)
{
    loop->has_pending = false;
    loop_report(loop, &loop->pending);
}

static void loop_reject_spawn(struct loop *loop, uint64_t id, enum init_step step, int error)
{
    struct init_report m = { .type = INIT_REPORT_SPAWN_FAILED, .id = id, .spawn_failed = { .error = error, .step = step } };

    loop_report(loop, &m);
}

static void handle_spawn(struct loop *loop, struct frame *frame, struct init_request *request)
{
    struct reaper reaper = { .channel = loop->channel,
                             .follows = !loop->is_pid1,
                             .init = getpid(),
                             .id = request->id,
                             .frame = frame,
                             .spawn = &request->spawn };
    struct exec *exec;

    if (exec_by_id(&loop->table, request->id)) {
        loop_reject_spawn(loop, request->id, INIT_STEP_REQUEST, EEXIST);
        return;
    }
    exec = exec_add(&loop->table, request->id);
    if (!exec) {
        loop_reject_spawn(loop, request->id, INIT_STEP_REQUEST, EAGAIN);
        return;
    }
    reaper.state = exec->state;
    exec->reaper = fork();
    if (exec->reaper == 0)
        reaper_run(&reaper);
    if (exec->reaper < 0) {
        loop_reject_spawn(loop, request->id, INIT_STEP_FORK, errno);
        exec_remove(&loop->table, exec);
    }
}

static void handle_kill(struct loop *loop, const struct init_request *request)
{
    struct exec *exec = exec_by_id(&loop->table, request->id);

    if (exec)
        kill_tree_handle_kill(&loop->kill_tree, exec, request);
}

/* Reads one frame. Returns -1 to continue, or init's exit code. */
static int loop_handle_frame(struct loop *loop)
{
    struct init_request request;
    struct frame frame;
    int r = frame_receive(loop->channel, payload, sizeof(payload), FRAME_NOWAIT, &frame), end = -1;

    if (r == -EAGAIN)
        return -1;
    if (r == -EMSGSIZE || r == -EPROTO)
        return INIT_EXIT_PROTOCOL;
    if (r < 0)
        return INIT_EXIT_PEER;
    if (init_request_decode(&frame, &request) < 0)
        end = INIT_EXIT_PROTOCOL;
    else if (request.type == INIT_REQUEST_SPAWN)
        handle_spawn(loop, &frame, &request);
    else if (request.type == INIT_REQUEST_KILL)
        handle_kill(loop, &request);
    else
        end = INIT_EXIT_SHUTDOWN;
    frame_close_fds(&frame);
    return end;
}

/* Reports what this exec's reaper would have reported. Returns false if more must be reported once there is room. */
static bool report_end(struct loop *loop, const struct exec *exec)
{
    struct init_report exited = { .type = INIT_REPORT_EXITED, .id = exec->id, .exited = { .status = SIGKILL } };
    struct init_report gone = { .type = INIT_REPORT_GONE, .id = exec->id };

    if (exec_phase(exec) == EXEC_STARTING) {
        loop_reject_spawn(loop, exec->id, INIT_STEP_REAPER, ECANCELED);
        return true;
    }
    if (exec_phase(exec) < EXEC_REPORTED) {
        loop_report(loop, &exited);
        atomic_store(&exec->state->state, EXEC_REPORTED);
    }
    if (loop->has_pending)
        return false;
    loop_report(loop, &gone);
    return true;
}

static void on_reaper_end(struct loop *loop, struct exec *exec)
{
    if (exec_phase(exec) == EXEC_GONE) {
        exec_remove(&loop->table, exec);
        return;
    }
    exec->orphaned = true;
    exec->is_killing = false;
    kill_tree_begin(exec);
}

/* Also reaps other children: as pid 1 or subreaper we inherit orphans. */
static void loop_reap_children(struct loop *loop)
{
    struct signalfd_siginfo info;
    pid_t pid;

    while (read(loop->signals, &info, sizeof(info)) > 0)
        ;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
        struct exec *exec = exec_by_reaper(&loop->table, pid);

        if (exec)
            on_reaper_end(loop, exec);
    }
}

static int loop_continue_kills(struct loop *loop)
{
    int wait_ms = kill_tree_continue(&loop->kill_tree, now_ms());

    for (size_t i = 0; i < loop->table.used; i++) {
        struct exec *exec = &loop->table.execs[i];

        if (exec->id != 0 && kill_tree_is_done(exec) && !loop->has_pending && report_end(loop, exec))
            exec_remove(&loop->table, exec);
    }
    return wait_ms;
}

/* As pid 1 exiting is enough: the kernel kills the namespace and waits for it. */
static void kill_all(struct loop *loop)
{
    int64_t deadline_ms = now_ms() + FAREWELL_MS;
    struct pollfd p = { .fd = loop->signals, .events = POLLIN };

    for (size_t i = 0; i < loop->table.used; i++)
        if (loop->table.execs[i].id != 0)
            kill_tree_begin(&loop->table.execs[i]);
    while (!loop->is_pid1 && loop->table.count > 0 && now_ms() < deadline_ms) {
        int wait_ms = loop_continue_kills(loop);

        poll(&p, 1, wait_ms < 0 || wait_ms > FAREWELL_STEP_MS ? FAREWELL_STEP_MS : wait_ms);
        loop_reap_children(loop);
        loop->has_pending = false; /* nobody reads it any more */
    }
}

enum init_exit loop_run(struct loop *loop)
{
    struct pollfd polled[] = { { .fd = loop->channel }, { .fd = loop->signals, .events = POLLIN } };
    int end = -1;

    while (end < 0) {
        int wait_ms = loop_continue_kills(loop);

        polled[0].events = loop->has_pending ? POLLOUT : POLLIN;
        if (poll(polled, 2, wait_ms) < 0)
            continue;
        if (polled[1].revents)
            loop_reap_children(loop);
        if (polled[0].revents && loop->has_pending)
            report_pending(loop);
        else if (polled[0].revents)
            end = loop_handle_frame(loop);
    }
    kill_all(loop);
    return (enum init_exit) end;
}

static int open_signals(void)
{
    sigset_t set;
    int fd;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

static int send_hello(const struct loop *loop)
{
    uint32_t flags = (loop->is_pid1 ? INIT_HELLO_PID1 : 0) | (loop->proc_fd >= 0 ? INIT_HELLO_PROC : 0);
    struct init_report m = { .type = INIT_REPORT_HELLO,
                             .hello = { .version = INIT_PROTO_VERSION, .pid = (uint32_t) getpid(), .flags = flags } };

    return channel_report(loop->channel, &m, -1, FRAME_WAIT);
}

int loop_open(struct loop *loop, int channel)
{
    int r;

    *loop = (struct loop){ .channel = channel, .is_pid1 = getpid() == 1, .proc_fd = sweep_open_proc() };
    loop->signals = open_signals();
    if (loop->signals < 0)
        return loop->signals;
    r = exec_table_open(&loop->table);
    if (r < 0)
        return r;
    loop->kill_tree = (struct kill_tree){ .proc_fd = loop->proc_fd, .table = &loop->table };
    return send_hello(loop);
}
