#include "cli/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/output.h"
#include "cli/terminal.h"

#define TAG_RUN 1
#define TAG_WATCH 2
#define PUMP_BYTES 65536
/* How often Ctrl-C asks politely. */
#define INTERRUPTS_MAX 3

enum { AT_CTL, AT_SIGNALS, AT_STDIN, AT_INPUT, AT_MASTER, AT_COUNT };

/* One direction: bytes read and not yet written. */
struct pump {
    int from, to; /* borrowed; -1: none, or at its end */
    size_t start, len;
    char bytes[PUMP_BYTES];
};

struct attachment {
    const struct attach *attach;
    int signal_fd; /* owned */
    int input_fd;  /* owned: the writing end of the command's standard input */
    int master_fd; /* owned: of the command's terminal */
    struct terminal terminal;
    unsigned interrupts;
    bool has_finished;
    struct ctl_finished result;
    struct err *err;
};

/* Large, and there is one command. */
static struct pump in_pump = { .from = -1, .to = -1 }, out_pump = { .from = -1, .to = -1 };

static int send_request(struct attachment *a, struct ctl_request *request)
{
    char payload[CTL_PROTO_SMALL_MAX];
    struct frame frame;
    int r = ctl_request_encode(request, payload, sizeof(payload), &frame);

    return r < 0 ? r : frame_send(a->attach->ctl_fd, &frame, FRAME_WAIT);
}

static void send_kill(struct attachment *a, int signal)
{
    struct ctl_request request = { .type = CTL_REQUEST_KILL,
                                   .tag = TAG_RUN,
                                   .kill = { .signal = signal, .scope = CTL_KILL_TREE } };

    send_request(a, &request);
}

static void on_signal(struct attachment *a)
{
    struct signalfd_siginfo info;
    uint16_t rows, cols;

    if (read(a->signal_fd, &info, sizeof(info)) != sizeof(info))
        return;
    if (info.ssi_signo == SIGWINCH) {
        terminal_get_size(&rows, &cols);
        if (a->master_fd >= 0)
            terminal_set_size(a->master_fd, rows, cols);
        return;
    }
    /* Who insists is obeyed. */
    send_kill(a, ++a->interrupts > INTERRUPTS_MAX ? SIGKILL : (int) info.ssi_signo);
}

static int take_signals(int *ret_fd)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGQUIT);
    sigaddset(&set, SIGWINCH);
    sigprocmask(SIG_BLOCK, &set, NULL);
    *ret_fd = signalfd(-1, &set, SFD_CLOEXEC);
    return *ret_fd < 0 ? -errno : 0;
}

/* One step; false when this direction is over. */
static bool pump_step(struct pump *pump)
{
    ssize_t n;

    if (pump->len == 0) {
        n = read(pump->from, pump->bytes, sizeof(pump->bytes));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n <= 0)
            return false;
        pump->start = 0;
        pump->len = (size_t) n;
    }
    n = write(pump->to, pump->bytes + pump->start, pump->len);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    pump->start += (size_t) n;
    pump->len -= (size_t) n;
    return true;
}

static void end_input(struct attachment *a)
{
    in_pump.from = in_pump.to = -1;
    if (a->input_fd >= 0)
        close(a->input_fd);
    a->input_fd = -1;
}

static void take_started(struct attachment *a, struct frame *frame)
{
    if (!a->attach->is_tty || frame->fd_count != 1)
        return;
    a->master_fd = frame_take_fd(frame, 0);
    fd_set_nonblock(a->master_fd, true);
    out_pump.from = a->master_fd;
    out_pump.to = STDOUT_FILENO;
    if (a->attach->takes_stdin) {
        in_pump.from = STDIN_FILENO;
        in_pump.to = a->master_fd;
    }
}

static int take_output(const struct ctl_reply *reply)
{
    int fd = reply->output.stream == CTL_STREAM_OUT ? STDOUT_FILENO : STDERR_FILENO;

    return fd_write_full(fd, reply->output.bytes, reply->output.len);
}

static void show_event(const struct ctl_event *event)
{
    if (event->kind != CTL_EVENT_DENIED)
        return;
    fputs("agentfense: refused: ", stderr);
    output_escaped(stderr, event->detail);
    fputs(" ", stderr);
    output_escaped(stderr, event->subject);
    fputs("\n", stderr);
}

static int take_reply(struct attachment *a, const struct ctl_reply *reply, struct frame *frame)
{
    switch (reply->type) {
    case CTL_REPLY_STARTED:
        take_started(a, frame);
        return 0;
    case CTL_REPLY_OUTPUT:
        /* Nobody reads it any more: the command gets the same news as in a pipeline. */
        if (take_output(reply) < 0)
            send_kill(a, SIGPIPE);
        return 0;
    case CTL_REPLY_FINISHED:
        a->result = reply->finished;
        a->has_finished = true;
        return 0;
    case CTL_REPLY_EVENT:
        show_event(&reply->event);
        return 0;
    case CTL_REPLY_ERROR:
        return err_set(a->err, reply->error.code, -ECANCELED, "%s", reply->error.text);
    case CTL_REPLY_STATE:
        if (reply->state.state == CTL_STATE_FAILED)
            return err_set(a->err, reply->state.code, -ECANCELED, "%s", reply->state.text);
        return 0;
    default:
        return 0;
    }
}

static int on_ctl(struct attachment *a)
{
    static char payload[FRAME_PAYLOAD_MAX];
    struct ctl_reply reply;
    struct frame frame;
    int r = frame_receive(a->attach->ctl_fd, payload, sizeof(payload), FRAME_NOWAIT, &frame);

    if (r == -EAGAIN)
        return 0;
    if (r == 0) {
        r = ctl_reply_decode(&frame, &reply);
        r = r == 0 ? take_reply(a, &reply, &frame) : err_errno(a->err, r, "a message of the supervisor");
        frame_close_fds(&frame);
        return r;
    }
    return err_errno(a->err, r, "the sandbox's supervisor is gone");
}

static int serve(struct attachment *a)
{
    while (!a->has_finished) {
        bool in_waits = in_pump.len > 0; /* to be written: do not read more */
        struct pollfd fds[AT_COUNT] = {
            [AT_CTL] = { a->attach->ctl_fd, POLLIN, 0 },
            [AT_SIGNALS] = { a->signal_fd, POLLIN, 0 },
            [AT_STDIN] = { in_waits ? -1 : in_pump.from, POLLIN, 0 },
            [AT_INPUT] = { in_pump.to, in_waits ? POLLOUT : 0, 0 },
            [AT_MASTER] = { out_pump.from, POLLIN, 0 },
        };

        if (poll(fds, AT_COUNT, -1) < 0 && errno != EINTR)
            return err_errno(a->err, -errno, "waiting for the command");
        if (fds[AT_SIGNALS].revents)
            on_signal(a);
        if (fds[AT_MASTER].revents && !pump_step(&out_pump))
            out_pump.from = -1;
        /* The command closed its input, or ours has ended. With a terminal there is no end to tell of. */
        if (fds[AT_INPUT].revents & (POLLERR | POLLHUP) ||
            ((fds[AT_STDIN].revents || fds[AT_INPUT].revents & POLLOUT) && !pump_step(&in_pump)))
            end_input(a);
        if (fds[AT_CTL].revents) {
            int r = on_ctl(a);
            if (r < 0)
                return r;
        }
    }
    while (out_pump.from >= 0 && (out_pump.len > 0 || poll(&(struct pollfd){ out_pump.from, POLLIN, 0 }, 1, 0) > 0)) {
        if (!pump_step(&out_pump))
            break;
    }
    return 0;
}

static int send_run(struct attachment *a, const struct ctl_command *command, int stdin_fd)
{
    static char payload[FRAME_PAYLOAD_MAX];
    struct ctl_run run = {
        .flags = (a->attach->is_tty ? CTL_RUN_TTY : 0u) | (stdin_fd >= 0 ? CTL_RUN_STDIN : 0u),
        .timeout_ms = a->attach->timeout_ms,
    };
    struct frame frame;
    autofd int strings_fd = -1;
    int r;

    terminal_get_size(&run.rows, &run.cols);
    r = ctl_run_encode(CTL_REQUEST_EXEC, TAG_RUN, &run, command, stdin_fd, payload, &frame, &strings_fd);
    if (r == -E2BIG)
        return err_set(a->err, ERR_INVALID_ARGUMENT, r, "arguments and environment are too long");
    if (r == 0)
        r = frame_send(a->attach->ctl_fd, &frame, FRAME_WAIT);
    return r < 0 ? err_errno(a->err, r, "asking for the command") : 0;
}

/* Only a pipe goes into the sandbox, never what our own standard input is. */
static int start(struct attachment *a, const struct ctl_command *command)
{
    int pair[2] = { -1, -1 };
    int r;

    if (a->attach->takes_stdin && !a->attach->is_tty) {
        if (pipe2(pair, O_CLOEXEC) < 0)
            return err_errno(a->err, -errno, "making a pipe");
        a->input_fd = pair[1];
        fd_set_nonblock(a->input_fd, true);
        in_pump.from = STDIN_FILENO;
        in_pump.to = a->input_fd;
    }
    autofd int theirs = pair[0];
    r = take_signals(&a->signal_fd);
    if (r < 0)
        return err_errno(a->err, r, "waiting for signals");
    if (a->attach->shows_refusals) {
        struct ctl_request request = { .type = CTL_REQUEST_WATCH, .tag = TAG_WATCH };
        send_request(a, &request);
    }
    return send_run(a, command, theirs);
}

int attach_run(const struct attach *attach, const struct ctl_command *command, struct ctl_finished *ret, struct err *err)
{
    struct attachment a = { .attach = attach, .signal_fd = -1, .input_fd = -1, .master_fd = -1, .err = err };
    int fds[3];
    int r = start(&a, command);

    if (r == 0 && attach->is_tty && isatty(STDIN_FILENO))
        r = terminal_make_raw(&a.terminal);
    if (r == 0)
        r = serve(&a);
    terminal_restore(&a.terminal);
    memcpy(fds, (int[]){ a.signal_fd, a.input_fd, a.master_fd }, sizeof(fds));
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    *ret = a.result;
    return r;
}
