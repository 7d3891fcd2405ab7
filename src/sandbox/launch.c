#include "sandbox/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/program.h"

#define STOP_MS 30000
#define PARENT_FD 3
#define BASE_FD 4

/* Returns 0 and a reply, or -ETIMEDOUT, -ECONNRESET, -EINTR when `cancel_fd` is readable, ... The reply's texts point into `payload`, which
 * holds FRAME_PAYLOAD_MAX. */
static int receive(int fd, int cancel_fd, int64_t until_ns, char *payload, struct ctl_reply *ret)
{
    struct frame frame;
    int r;

    for (;;) {
        int64_t left_ms = (until_ns - clock_now_ns()) / CLOCK_NS_PER_MS;
        struct pollfd fds[] = { { .fd = fd, .events = POLLIN }, { .fd = cancel_fd, .events = POLLIN } };

        if (left_ms <= 0)
            return -ETIMEDOUT;
        if (poll(fds, ARRAY_LEN(fds), (int) left_ms) < 0 && errno != EINTR)
            return -errno;
        if (fds[1].revents)
            return -EINTR;
        r = frame_receive(fd, payload, FRAME_PAYLOAD_MAX, FRAME_NOWAIT, &frame);
        if (r == -EAGAIN)
            continue;
        if (r < 0)
            return r;
        r = ctl_reply_decode(&frame, ret);
        frame_close_fds(&frame);
        return r;
    }
}

static int await_running(struct launch *launch, const char *name, const struct launch_wait *wait, struct err *err)
{
    int64_t until = clock_now_ns() + wait->within_ms * CLOCK_NS_PER_MS;
    autofree char *payload = malloc(FRAME_PAYLOAD_MAX);
    struct ctl_reply reply;

    if (!payload)
        return err_errno(err, -ENOMEM, "waiting for sandbox '%s' to start", name);
    for (;;) {
        int r = receive(launch->ctl_fd, wait->cancel_fd, until, payload, &reply);

        if (r == -ECONNRESET)
            return err_set(err, ERR_UNAVAILABLE, r, "the supervisor of '%s' ended at once", name);
        if (r < 0)
            return err_errno(err, r, "waiting for sandbox '%s' to start", name);
        if (reply.type != CTL_REPLY_STATE)
            continue;
        if (reply.state.state == CTL_STATE_RUNNING)
            return 0;
        if (reply.state.state == CTL_STATE_FAILED)
            return err_set(err, reply.state.code, -ECANCELED, "%s", reply.state.text);
        if (reply.state.state == CTL_STATE_BOOTING && reply.state.text[0] != '\0' && wait->on_step)
            wait->on_step(reply.state.text, wait->cookie);
    }
}

static int spawn(const char *program, const char *dir, enum launch_kind kind, int socket, int base_fd, struct launch *ret,
                 struct err *err)
{
    bool has_base = base_fd > 0;
    const char *socket_option = kind == LAUNCH_OWNED ? "--owner-fd" : "--report-fd";
    const char *argv[] = { program, socket_option, "3", has_base ? "--base-fd" : dir, has_base ? "4" : NULL, dir, NULL };
    struct proc_fd fds[] = { { socket, PARENT_FD }, { STDERR_FILENO, STDERR_FILENO }, { base_fd, BASE_FD } };
    struct proc_spec spec = { .argv = argv, .fds = fds, .fd_count = has_base ? 3 : 2, .new_session = true };

    return proc_spawn(&spec, &ret->supervisor, err);
}

/* A sandbox that runs again may get changes that have not been decided about. */
static void reopen(const struct state_dir *state_dir, const char *name)
{
    autofd int dir_fd = path_open_beneath(state_dir->sandboxes_fd, name, O_RDONLY | O_DIRECTORY, 0);
    enum sandbox_dir_decision decision;
    bool is_deleted;

    if (dir_fd < 0 || sandbox_dir_read_decision(dir_fd, &decision, &is_deleted) < 0 ||
        (decision == SANDBOX_DIR_OPEN && !is_deleted))
        return;
    if (sandbox_dir_write_decision(dir_fd, SANDBOX_DIR_OPEN, false) < 0)
        log_warn("a sandbox runs that counts as decided", LOG_STR("sandbox", name));
}

int launch(const struct state_dir *state_dir, const char *name, enum launch_kind kind, const struct launch_wait *wait,
           struct launch *ret, struct err *err)
{
    autofree char *program = NULL;
    autofree char *spec_path = state_dir_path(state_dir, name, "");
    int pair[2];
    int r = program_find("agentfense-supervisor", &program, err);

    *ret = LAUNCH_NONE;
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, -errno, "making a socket");
    autofd int theirs = pair[1];
    ret->ctl_fd = pair[0];
    r = spawn(program, spec_path, kind, theirs, wait->base_fd, ret, err);
    close(steal_fd(&theirs));
    if (r == 0)
        r = await_running(ret, name, wait, err);
    if (r == 0)
        reopen(state_dir, name);
    if (r < 0 && kind == LAUNCH_DETACHED)
        proc_signal(&ret->supervisor, SIGTERM);
    if (r < 0)
        launch_done(ret);
    return r;
}

static bool has_stopped(const struct ctl_reply *reply)
{
    return reply->type == CTL_REPLY_STATE &&
           (reply->state.state == CTL_STATE_STOPPED || reply->state.state == CTL_STATE_FAILED);
}

void launch_stop(struct launch *launch, unsigned grace_ms, launch_reply_fn fn, void *cookie)
{
    struct ctl_request request = { .type = CTL_REQUEST_STOP, .tag = 1, .stop = { .grace_ms = grace_ms } };
    int64_t until = clock_now_ns() + (STOP_MS + (int64_t) grace_ms) * CLOCK_NS_PER_MS;
    autofree char *answer = malloc(FRAME_PAYLOAD_MAX);
    char payload[CTL_PROTO_SMALL_MAX];
    struct ctl_reply reply = { 0 };
    struct frame frame;

    if (launch->ctl_fd < 0)
        return;
    if (ctl_request_encode(&request, payload, sizeof(payload), &frame) == 0 &&
        frame_send(launch->ctl_fd, &frame, FRAME_WAIT) == 0) {
        while (answer && receive(launch->ctl_fd, -1, until, answer, &reply) == 0 && !has_stopped(&reply)) {
            if (fn)
                fn(&reply, cookie);
        }
    }
    launch_done(launch);
}

void launch_done(struct launch *launch)
{
    int status;

    if (launch->ctl_fd >= 0)
        close(launch->ctl_fd);
    launch->ctl_fd = -1;
    if (launch->supervisor.pid > 0)
        proc_wait_timeout(&launch->supervisor, STOP_MS, &status);
    proc_done(&launch->supervisor);
    launch->supervisor = PROC_NONE;
}
