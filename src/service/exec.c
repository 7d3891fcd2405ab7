#include "service/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/mem.h"
#include "wire/ctl_client.h"

#define TAG 1
#define KILLED_MS 10000

struct exec {
    int ctl_fd;        /* borrowed */
    int input_fd;      /* owned: the write end of the command's standard input; -1: all is written */
    const char *input; /* what is still to be written */
    size_t input_len;
    char *payload; /* owned; FRAME_PAYLOAD_MAX */
    const struct exec_sink *sink;
    struct exec_result *result;
    bool has_finished;
    bool is_killed; /* by us: drop its further output */
};

int exec_exit_code(const struct ctl_finished *finished)
{
    return finished->end == CTL_END_SIGNALED ? 128 + finished->status : finished->status;
}

/* Pass only the end of a pipe into the sandbox, never another descriptor of ours. */
static int open_input(struct exec *exec, const struct exec_request *request, int *ret_theirs)
{
    int pair[2];

    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    *ret_theirs = pair[0];
    exec->input_fd = pair[1];
    exec->input = request->input;
    exec->input_len = request->input_len;
    return fd_set_nonblock(pair[1], true);
}

/* Writes as much as the pipe takes. If the command has closed its end, the rest is dropped. */
static void feed(struct exec *exec)
{
    while (exec->input_len > 0) {
        ssize_t n = write(exec->input_fd, exec->input, exec->input_len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0)
            break;
        exec->input += n;
        exec->input_len -= (size_t) n;
    }
    close(steal_fd(&exec->input_fd));
}

static bool has_limits(const struct ctl_limits *limits)
{
    return limits->memory_bytes || limits->cpu_sec || limits->processes || limits->files;
}

static int ask(struct exec *exec, const struct exec_request *request, struct err *err)
{
    enum ctl_request_type type = request->session ? CTL_REQUEST_SESSION_EXEC : CTL_REQUEST_EXEC;
    struct ctl_run run = {
        .flags = CTL_RUN_DETACHED | (request->input_len > 0 ? CTL_RUN_STDIN : 0u) |
                 (has_limits(&request->limits) ? CTL_RUN_LIMITS : 0u),
        .limits = request->limits,
        .timeout_ms = request->timeout_ms,
        .output_limit = request->output_limit,
    };
    struct ctl_command command = {
        .name = request->name, .session = request->session, .cwd = request->cwd, .argv = request->argv, .envp = request->envp
    };
    autofd int theirs = -1;
    autofd int strings_fd = -1;
    struct frame frame;
    int r = request->input_len > 0 ? open_input(exec, request, &theirs) : 0;

    if (r < 0)
        return err_errno(err, r, "making a pipe");
    r = ctl_run_encode(type, TAG, &run, &command, theirs, exec->payload, &frame, &strings_fd);
    if (r == -E2BIG)
        return err_set(err, ERR_INVALID_ARGUMENT, r, "command and environment are too long");
    if (r < 0)
        return err_errno(err, r, "asking for the command");
    return ctl_client_send(exec->ctl_fd, &frame, -1, err);
}

static int take(struct exec *exec, const struct ctl_reply *reply, struct err *err)
{
    switch (reply->type) {
    case CTL_REPLY_OUTPUT:
        if (reply->tag != TAG || exec->is_killed ||
            exec->sink->fn(reply->output.stream, reply->output.bytes, reply->output.len, exec->sink->cookie) >= 0)
            return 0;
        return err_set(err, ERR_CANCELLED, -ECANCELED, "nobody reads the output any more");
    case CTL_REPLY_STARTED:
        if (reply->tag == TAG)
            exec->result->pid = reply->started.pid;
        return 0;
    case CTL_REPLY_FINISHED:
        if (reply->tag != TAG)
            return 0;
        exec->result->finished = reply->finished;
        exec->has_finished = true;
        return 0;
    case CTL_REPLY_ERROR:
        return reply->tag == TAG ? err_set(err, reply->error.code, -EREMOTEIO, "%s", reply->error.text) : 0;
    default:
        return 0; /* states; the connection closes when the sandbox ends */
    }
}

static int on_reply(struct exec *exec, struct err *err)
{
    struct ctl_reply reply;
    struct frame frame;
    int r = frame_receive(exec->ctl_fd, exec->payload, FRAME_PAYLOAD_MAX, FRAME_NOWAIT, &frame);

    if (r == -EAGAIN)
        return 0;
    if (r < 0)
        return err_set(err, ERR_UNAVAILABLE, r, "the sandbox ended before the command");
    r = ctl_reply_decode(&frame, &reply);
    frame_close_fds(&frame);
    return r < 0 ? err_errno(err, r, "a message of the supervisor") : take(exec, &reply, err);
}

static int follow(struct exec *exec, struct err *err)
{
    while (!exec->has_finished) {
        struct pollfd fds[] = {
            { .fd = exec->ctl_fd, .events = POLLIN },
            { .fd = exec->is_killed ? -1 : exec->sink->cancel_fd, .events = POLLIN },
            { .fd = exec->input_fd, .events = POLLOUT },
        };
        int r = poll(fds, ARRAY_LEN(fds), exec->is_killed ? KILLED_MS : -1);

        if (r < 0 && errno != EINTR)
            return err_errno(err, -errno, "waiting for the command");
        if (r == 0)
            return err_set(err, ERR_INTERNAL, -ETIMEDOUT, "the command was killed and does not end");
        if (fds[1].revents)
            return err_set(err, ERR_CANCELLED, -ECANCELED, "the call was cancelled");
        if (fds[2].revents)
            feed(exec);
        r = fds[0].revents ? on_reply(exec, err) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

/* Returns 0 when the supervisor has reported the command's end. */
static int kill_it(struct exec *exec)
{
    struct ctl_request request = { .type = CTL_REQUEST_KILL,
                                   .tag = TAG,
                                   .kill = { .signal = SIGKILL, .scope = CTL_KILL_TREE } };
    struct err ignored = ERR_NONE;
    struct frame frame;
    int r = ctl_request_encode(&request, exec->payload, FRAME_PAYLOAD_MAX, &frame);

    exec->is_killed = true;
    if (r == 0)
        r = ctl_client_send(exec->ctl_fd, &frame, KILLED_MS, &ignored);
    return r < 0 ? r : follow(exec, &ignored);
}

int exec_run(int ctl_fd, const struct exec_request *request, const struct exec_sink *sink, struct exec_result *ret,
             struct err *err)
{
    struct exec exec = { .ctl_fd = ctl_fd, .input_fd = -1, .sink = sink, .result = ret };
    int r;

    *ret = (struct exec_result){ 0 };
    exec.payload = malloc(FRAME_PAYLOAD_MAX);
    if (!exec.payload)
        return err_set(err, ERR_RESOURCE_EXHAUSTED, -ENOMEM, "out of memory");
    r = ask(&exec, request, err);
    if (r == 0)
        r = follow(&exec, err);
    if (r == -ECANCELED && !(sink->spare && sink->spare(sink->spare_cookie)))
        kill_it(&exec);
    cleanup_fd(&exec.input_fd);
    free(exec.payload);
    return r;
}
