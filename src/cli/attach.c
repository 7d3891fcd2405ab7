#include "cli/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/mem.h"
#include "cli/output.h"
#include "cli/terminal.h"

#define TAG_RUN 1
#define TAG_WATCH 2
#define PUMP_BYTES 65536
/* Ctrl-C passes SIGINT on this many times; after that it sends SIGKILL. */
#define INTERRUPTS_MAX 3
/* How often to check whether we have come to the foreground, and to resend the end of input to a terminal. */
#define LOOK_AGAIN_MS 300
#define CONTROL_D 4
#define HELD_MAX 65536

enum { AT_CTL, AT_SIGNALS, AT_STDIN, AT_INPUT, AT_MASTER, AT_COUNT };

/* One direction: bytes read but not yet written. */
struct pump {
    int from, to; /* borrowed; -1: none, or ended */
    size_t start, len;
    char bytes[PUMP_BYTES];
};

struct attachment {
    const struct attach *attach;
    int input_fd;  /* owned: the writing end of the command's standard input */
    int master_fd; /* owned: of the command's terminal */
    struct terminal terminal;
    bool is_in_line; /* the command's last output on standard error lacks a newline */
    bool shows_terminal;
    bool lacks_end; /* the command's terminal has not yet received the end of our input */
    unsigned interrupts;
    bool has_finished;
    struct ctl_finished result;
    struct err *err;
};

/* Static because of its size; there is only one command. */
static struct pump in_pump = { .from = -1, .to = -1 };
static char out_bytes[PUMP_BYTES];

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

    if (read(a->attach->signal_fd, &info, sizeof(info)) != sizeof(info))
        return;
    if (info.ssi_signo == SIGWINCH) {
        terminal_get_size(&rows, &cols);
        if (a->master_fd >= 0)
            terminal_set_size(a->master_fd, rows, cols);
        return;
    }
    /* Our terminal was closed. A shell that is waiting for a key when the signal arrives may notice the signal only at the next key. */
    if (info.ssi_signo == SIGHUP && a->attach->is_tty)
        a->lacks_end = true;
    /* The command ignored several signals. */
    send_kill(a, ++a->interrupts > INTERRUPTS_MAX ? SIGKILL : (int) info.ssi_signo);
}

/* The kernel queues a blocked signal even if it is ignored. So this leaves out signals that nohup(1) or a shell's & made us ignore. */
static int make_signal_fd(int fd, bool with_size)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    struct sigaction action;
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
        if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&set, signals[i]);
    }
    if (with_size)
        sigaddset(&set, SIGWINCH);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -errno;
    fd = signalfd(fd, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

int attach_take_signals(int *ret_fd)
{
    int r = make_signal_fd(-1, false);

    if (r < 0)
        return r;
    *ret_fd = r;
    return 0;
}

/* Writes to our own output. It handles signals while the reader is slow, and drops the rest once the user has insisted on an end. Writes of at
 * most PIPE_BUF bytes do not block after poll() has reported room. */
static int write_out(struct attachment *a, int fd, const char *bytes, size_t len)
{
    while (len > 0 && a->interrupts <= INTERRUPTS_MAX) {
        struct pollfd fds[] = { { fd, POLLOUT, 0 }, { a->attach->signal_fd, POLLIN, 0 } };
        ssize_t n;

        if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
            return -errno;
        if (fds[1].revents)
            on_signal(a);
        if (!fds[0].revents)
            continue;
        n = write(fd, bytes, len < PIPE_BUF ? len : PIPE_BUF);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return -errno;
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t) n : 0;
    }
    return 0;
}

/* Reads or writes once. Returns false when this direction has ended. */
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

static void show_terminal(struct attachment *a)
{
    ssize_t n = read(a->master_fd, out_bytes, sizeof(out_bytes));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 || write_out(a, STDOUT_FILENO, out_bytes, (size_t) n) < 0)
        a->shows_terminal = false;
}

/* Called when our input has ended, or the command has closed its input. */
static void end_input(struct attachment *a)
{
    a->lacks_end = a->attach->is_tty;
    in_pump.from = in_pump.to = -1;
    if (a->input_fd >= 0)
        close(a->input_fd);
    a->input_fd = -1;
}

/* A terminal's end of input is a key. A program that does not read yet, or that changes the terminal's mode, loses the key, so the caller sends it
 * again and again. */
static void press_end(struct attachment *a)
{
    static const char key = CONTROL_D;

    if (a->master_fd >= 0 && write(a->master_fd, &key, 1) < 0 && errno != EAGAIN)
        a->lacks_end = false;
}

static void take_started(struct attachment *a, struct frame *frame)
{
    if (!a->attach->is_tty || frame->fd_count != 1)
        return;
    a->master_fd = frame_take_fd(frame, 0);
    fd_set_nonblock(a->master_fd, true);
    a->shows_terminal = true;
    if (a->attach->takes_stdin) {
        in_pump.from = STDIN_FILENO;
        in_pump.to = a->master_fd;
    }
}

/* Our own lines, held until the command has ended its line. */
static struct buf held = BUF_EMPTY;

static void tell_held(struct attachment *a)
{
    if (a->is_in_line || held.len == 0)
        return;
    write_out(a, STDERR_FILENO, held.data, held.len);
    held.len = 0;
}

static int take_output(struct attachment *a, const struct ctl_reply *reply)
{
    const char *bytes = reply->output.bytes;
    size_t len = reply->output.len;
    int r;

    if (reply->output.stream == CTL_STREAM_OUT)
        return write_out(a, STDOUT_FILENO, bytes, len);
    r = write_out(a, STDERR_FILENO, bytes, len);
    if (len > 0)
        a->is_in_line = bytes[len - 1] != '\n';
    tell_held(a);
    return r;
}

/* The detail is the operation, the path's level and sometimes the system call. At level `write` the rules refused a name in that directory which
 * the event does not include. In raw mode `newline` needs a carriage return. */
static void show_refusal(FILE *out, const struct ctl_event *event, const char *newline)
{
    char operation[32] = "", level[32] = "";

    sscanf(event->detail, "%31s %31s", operation, level);
    fprintf(out, "agentfense: refused: %s %s", operation, strcmp(level, "write") == 0 ? "in " : "");
    output_escaped(out, event->subject);
    if (strcmp(level, "write") != 0)
        fprintf(out, " (%s)", level);
    fputs(newline, out);
}

void attach_show_refusal(const struct ctl_reply *reply)
{
    if (reply->type == CTL_REPLY_EVENT && reply->event.kind == CTL_EVENT_DENIED)
        show_refusal(stderr, &reply->event, "\n");
}

static void hold_refusal(struct attachment *a, const struct ctl_event *event)
{
    autofree char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    if (!out)
        return;
    show_refusal(out, event, a->terminal.is_raw ? "\r\n" : "\n");
    if (fclose(out) == 0 && held.len + len <= HELD_MAX)
        buf_add(&held, text, len);
    tell_held(a);
}

static int take_reply(struct attachment *a, const struct ctl_reply *reply, struct frame *frame)
{
    switch (reply->type) {
    case CTL_REPLY_STARTED:
        take_started(a, frame);
        return 0;
    case CTL_REPLY_OUTPUT:
        /* Our reader has closed its end: the command gets the same error as in a pipeline. */
        if (take_output(a, reply) < 0)
            send_kill(a, SIGPIPE);
        return 0;
    case CTL_REPLY_FINISHED:
        a->result = reply->finished;
        a->has_finished = true;
        return 0;
    case CTL_REPLY_EVENT:
        if (reply->event.kind == CTL_EVENT_DENIED)
            hold_refusal(a, &reply->event);
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

/* The kernel stops a background job that reads its terminal, but not one that only waits. */
static bool may_read_stdin(void)
{
    return !isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static int serve(struct attachment *a)
{
    while (!a->has_finished) {
        bool in_waits = in_pump.len > 0; /* write this first, before reading more */
        bool may_read = in_pump.from < 0 || may_read_stdin();
        struct pollfd fds[AT_COUNT] = {
            [AT_CTL] = { a->attach->ctl_fd, POLLIN, 0 },
            [AT_SIGNALS] = { a->attach->signal_fd, POLLIN, 0 },
            [AT_STDIN] = { in_waits || !may_read ? -1 : in_pump.from, POLLIN, 0 },
            [AT_INPUT] = { in_pump.to, in_waits ? POLLOUT : 0, 0 },
            [AT_MASTER] = { a->shows_terminal ? a->master_fd : -1, POLLIN, 0 },
        };

        int count = poll(fds, AT_COUNT, may_read && !a->lacks_end ? -1 : LOOK_AGAIN_MS);
        if (count < 0 && errno != EINTR)
            return err_errno(a->err, -errno, "waiting for the command");
        if (count == 0 && a->lacks_end)
            press_end(a);
        if (fds[AT_SIGNALS].revents)
            on_signal(a);
        if (fds[AT_MASTER].revents)
            show_terminal(a);
        /* The command has closed its input, or ours has ended. */
        if (fds[AT_INPUT].revents & (POLLERR | POLLHUP) ||
            ((fds[AT_STDIN].revents || fds[AT_INPUT].revents & POLLOUT) && !pump_step(&in_pump)))
            end_input(a);
        if (fds[AT_CTL].revents) {
            int r = on_ctl(a);
            if (r < 0)
                return r;
        }
    }
    while (a->shows_terminal && poll(&(struct pollfd){ a->master_fd, POLLIN, 0 }, 1, 0) > 0)
        show_terminal(a);
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

/* The sandbox gets a pipe, and never our own standard input. */
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
    r = a->attach->is_tty ? make_signal_fd(a->attach->signal_fd, true) : 0;
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
    struct attachment a = { .attach = attach, .input_fd = -1, .master_fd = -1, .err = err };
    int r = start(&a, command);

    if (r == 0 && attach->is_tty && isatty(STDIN_FILENO)) {
        r = terminal_make_raw(&a.terminal);
        if (r < 0)
            err_errno(err, r, "taking the terminal");
    }
    if (r == 0)
        r = serve(&a);
    a.is_in_line = false;
    tell_held(&a);
    terminal_restore(&a.terminal);
    buf_done(&held);
    cleanup_fd(&a.input_fd);
    cleanup_fd(&a.master_fd);
    if (r == 0)
        *ret = a.result;
    return r;
}
