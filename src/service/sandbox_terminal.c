#include "service/sandbox_terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/sandbox_care.h"
#include "service/sandbox_run_int.h"
#include "service/service_int.h"
#include "service/sync.h"
#include "wire/ctl_client.h"

#define TAG PREPARED_TAG
#define SEND_MS 10000
#define ENDED_MS 15000 /* beyond the grace: the supervisor reports after five seconds that a killed process has not ended */
#define END_TAG (TAG + 1)
#define TIMEOUT_EXIT_CODE 124

_Static_assert(WORKSPACE_TERMINAL_TYPE_MAX == CTL_INPUT_MAX, "what may be typed at once");

struct sandbox_terminal {
    int fd; /* owned: used for nothing else */
    char name[CTL_NAME_MAX];
    bool is_piped;
    bool syncs;       /* its changes are synced to a codebase when it ends */
    int input_fd;     /* owned: the write end of the command's standard input; -1: a terminal, or closed */
    struct buf typed; /* input that the pipe has not taken yet */
    bool input_ends;  /* close the pipe after `typed` */
    char *command;    /* owned: with pipes, the command's name for messages */
    struct buf complaint;
    struct ctl_reply reply; /* the last reply; borrows from `payload` */
    char payload[FRAME_PAYLOAD_MAX];
};

int sandbox_check_active(struct service *service, const struct caller *caller, const char *id, struct err *err)
{
    autoptr(sandbox_conn) conn = NULL;

    return sandboxes_find_conn(service, caller, id, &conn, err);
}

void sandbox_terminal_close(struct sandbox_terminal *terminal)
{
    if (!terminal)
        return;
    cleanup_fd(&terminal->fd);
    cleanup_fd(&terminal->input_fd);
    buf_done(&terminal->typed);
    buf_done(&terminal->complaint);
    free(terminal->command);
    free(terminal);
}

static int make(struct service *service, const struct caller *caller, const char *id, struct sandbox_conn **ret_conn,
                struct sandbox_terminal **ret, struct err *err)
{
    autoptr(sandbox_terminal) terminal = calloc(1, sizeof(*terminal));
    autoptr(sandbox_conn) conn = NULL;
    int r;

    if (!terminal) {
        err_errno(err, -ENOMEM, "making a terminal");
        return -ENOMEM;
    }
    terminal->fd = terminal->input_fd = -1;
    r = sandboxes_find_conn(service, caller, id, &conn, err);
    if (r == 0)
        r = sandbox_conn_take_fd(conn, &terminal->fd, err);
    if (r < 0)
        return r;
    terminal->syncs = conn->syncs;
    *ret_conn = steal_ptr(&conn);
    *ret = steal_ptr(&terminal);
    return 0;
}

/* Passes only the end of a pipe into the sandbox, never another descriptor of ours. Detached like all commands, so that it survives a
 * server that is killed. */
static int start_piped(struct sandbox_terminal *terminal, const struct prepared_exec *prepared, struct err *err)
{
    const struct ctl_run run = { .flags = CTL_RUN_DETACHED | CTL_RUN_STDIN | CTL_RUN_LIMITS,
                                 .timeout_ms = prepared->timeout_ms,
                                 .limits = prepared->limits };
    const struct ctl_command what = {
        .name = terminal->name, .cwd = prepared->cwd, .argv = prepared->argv, .envp = (const char *const *) prepared->env
    };
    autofd int theirs = -1, strings_fd = -1;
    struct frame frame;
    int pair[2], r;

    if (pipe2(pair, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "making a pipe");
    theirs = pair[0];
    terminal->input_fd = pair[1];
    r = fd_set_nonblock(pair[1], true);
    if (r == 0)
        r = ctl_run_encode(CTL_REQUEST_EXEC, TAG, &run, &what, theirs, terminal->payload, &frame, &strings_fd);
    if (r == -E2BIG)
        return err_set(err, ERR_INVALID_ARGUMENT, r, "command and environment are too long");
    return r < 0 ? err_errno(err, r, "asking for the command") : ctl_client_send(terminal->fd, &frame, SEND_MS, err);
}

int sandbox_terminal_open(struct service *service, const struct caller *caller, const char *id,
                          const struct sandbox_command *command, struct sandbox_terminal **ret, struct err *err)
{
    autodone(prepared_exec) struct prepared_exec prepared = { 0 };
    autoptr(sandbox_terminal) terminal = NULL;
    autoptr(sandbox_conn) conn = NULL;
    int r = make(service, caller, id, &conn, &terminal, err);

    if (r == 0)
        r = prepared_exec_make(service, conn, command, &prepared, err);
    if (r == 0 && command->is_piped) {
        terminal->is_piped = true;
        terminal->command = xdup(command->command);
        id_new("ex_", terminal->name);
        sandbox_conn_note_exec(conn, terminal->name);
        r = start_piped(terminal, &prepared, err);
    } else if (r == 0) {
        r = prepared_exec_start(terminal->fd, &prepared, command, CTL_RUN_TTY, terminal->name, err);
    }
    if (r < 0)
        return r;
    *ret = steal_ptr(&terminal);
    return 0;
}

static int send_request(struct sandbox_terminal *terminal, const struct ctl_request *request, struct err *err)
{
    char payload[CTL_PROTO_SMALL_MAX];
    struct frame frame;
    int r = ctl_request_encode(request, payload, sizeof(payload), &frame);

    return r < 0 ? err_errno(err, r, "asking the sandbox") : ctl_client_send(terminal->fd, &frame, SEND_MS, err);
}

int sandbox_terminal_attach(struct service *service, const struct caller *caller, const char *id, const char *which,
                            struct sandbox_terminal **ret, struct err *err)
{
    struct ctl_request request = { .type = CTL_REQUEST_ATTACH, .tag = TAG };
    autodone(process_info) struct process_info info = { 0 };
    autoptr(sandbox_terminal) terminal = NULL;
    autoptr(sandbox_conn) conn = NULL;
    int r = sandbox_process_find(service, caller, id, which, &info, err);

    if (r < 0)
        return r;
    if (!info.record.is_tty || !info.is_running)
        return err_set(err, ERR_FAILED_PRECONDITION, -ENOTTY, "process '%s' %s", info.record.name,
                       info.record.is_tty ? "has ended" : "has no terminal");
    r = make(service, caller, id, &conn, &terminal, err);
    if (r < 0)
        return r;
    memcpy(request.attach.name, info.record.name, sizeof(info.record.name));
    r = send_request(terminal, &request, err);
    if (r == 0)
        r = prepared_exec_await(terminal->fd, terminal->payload, terminal->name, err);
    /* It ended between reading its record and the request. */
    if (r == -EREMOTEIO && err->code == ERR_NOT_FOUND)
        return err_set(err, ERR_FAILED_PRECONDITION, -ENOTTY, "process '%s' has ended", info.record.name);
    if (r < 0)
        return r;
    *ret = steal_ptr(&terminal);
    return 0;
}

const char *sandbox_terminal_name(const struct sandbox_terminal *terminal)
{
    return terminal->name;
}

bool sandbox_terminal_is_piped(const struct sandbox_terminal *terminal)
{
    return terminal->is_piped;
}

int sandbox_terminal_fd(const struct sandbox_terminal *terminal)
{
    return terminal->fd;
}

/* ---- output ---- */

/* With pipes, a command that could not start prints nothing, so print the reason to standard error, as a shell would. */
static void take_end(struct sandbox_terminal *terminal, const struct ctl_finished *finished, struct terminal_event *ret)
{
    *ret = (struct terminal_event){
        .kind = TERMINAL_ENDED,
        .exit_code = exec_exit_code(finished),
        .timed_out = finished->end == CTL_END_TIMED_OUT,
        .ran_out_of_memory = finished->flags & CTL_FINISHED_OOM,
        .bytes = "",
        .text = finished->text,
    };
    if (finished->end == CTL_END_LOST)
        ret->exit_code = -1;
    if (ret->timed_out)
        ret->exit_code = TIMEOUT_EXIT_CODE;
    if (finished->end != CTL_END_NOT_STARTED || !terminal->is_piped)
        return;
    buf_addf(&terminal->complaint, "agentfense: cannot run '%s': %s\n", terminal->command, finished->text);
    ret->bytes = terminal->complaint.data;
    ret->len = terminal->complaint.len;
}

static int take(struct sandbox_terminal *terminal, struct terminal_event *ret, struct err *err)
{
    const struct ctl_reply *reply = &terminal->reply;

    if (reply->tag != TAG)
        return 0;
    switch (reply->type) {
    case CTL_REPLY_OUTPUT:
        *ret = (struct terminal_event){
            .kind = TERMINAL_OUTPUT, .stream = reply->output.stream, .bytes = reply->output.bytes, .len = reply->output.len
        };
        return 0;
    case CTL_REPLY_OK:
        ret->kind = TERMINAL_TAKEN;
        return 0;
    case CTL_REPLY_FINISHED:
        take_end(terminal, &reply->finished, ret);
        return 0;
    case CTL_REPLY_ERROR:
        return err_set(err, reply->error.code, -EREMOTEIO, "%s", reply->error.text);
    default:
        return 0;
    }
}

int sandbox_terminal_receive(struct sandbox_terminal *terminal, struct terminal_event *ret, struct err *err)
{
    struct frame frame = { 0 };
    int r = frame_receive(terminal->fd, terminal->payload, FRAME_PAYLOAD_MAX, FRAME_NOWAIT, &frame);

    *ret = (struct terminal_event){ .kind = TERMINAL_NOTHING };
    if (r == -EAGAIN)
        return 0;
    if (r == 0)
        r = ctl_reply_decode(&frame, &terminal->reply);
    frame_close_fds(&frame);
    return r < 0 ? err_set(err, ERR_UNAVAILABLE, r, "the sandbox has ended") : take(terminal, ret, err);
}

/* ---- input ---- */

int sandbox_terminal_input_fd(const struct sandbox_terminal *terminal)
{
    return terminal->typed.len > 0 ? terminal->input_fd : -1;
}

bool sandbox_terminal_feed(struct sandbox_terminal *terminal)
{
    size_t at = 0;
    ssize_t n = 0;

    while (terminal->input_fd >= 0 && at < terminal->typed.len && n >= 0) {
        n = write(terminal->input_fd, terminal->typed.data + at, terminal->typed.len - at);
        if (n < 0 && errno == EINTR)
            n = 0;
        at += n > 0 ? (size_t) n : 0;
    }
    /* The command has closed its end: drop the input. */
    if (n < 0 && errno != EAGAIN) {
        close(steal_fd(&terminal->input_fd));
        at = terminal->typed.len;
    }
    memmove(terminal->typed.data, terminal->typed.data + at, terminal->typed.len - at);
    terminal->typed.len -= at;
    if (terminal->typed.len == 0 && terminal->input_ends && terminal->input_fd >= 0)
        close(steal_fd(&terminal->input_fd));
    return terminal->typed.len == 0;
}

void sandbox_terminal_end_input(struct sandbox_terminal *terminal)
{
    terminal->input_ends = true;
    if (terminal->is_piped && terminal->typed.len == 0 && terminal->input_fd >= 0)
        close(steal_fd(&terminal->input_fd));
}

int sandbox_terminal_type(struct sandbox_terminal *terminal, const void *bytes, size_t len, struct err *err)
{
    if (terminal->is_piped) {
        if (terminal->input_fd >= 0 && !terminal->input_ends)
            buf_add(&terminal->typed, bytes, len);
        return 0;
    }
    return send_request(
        terminal, &(struct ctl_request){ .type = CTL_REQUEST_INPUT, .tag = TAG, .input = { .bytes = bytes, .len = len } }, err);
}

int sandbox_terminal_resize(struct sandbox_terminal *terminal, uint16_t rows, uint16_t cols, struct err *err)
{
    return send_request(
        terminal, &(struct ctl_request){ .type = CTL_REQUEST_RESIZE, .tag = TAG, .resize = { .rows = rows, .cols = cols } },
        err);
}

/* ---- end ---- */

static bool is_last(const struct sandbox_terminal *terminal, uint64_t tag)
{
    const struct ctl_reply *reply = &terminal->reply;

    if (reply->tag != tag)
        return false;
    return tag == TAG ? reply->type == CTL_REPLY_FINISHED : reply->type == CTL_REPLY_OK || reply->type == CTL_REPLY_ERROR;
}

/* Drops its remaining output. */
static void await_end(struct sandbox_terminal *terminal, uint64_t tag, int64_t until_ns)
{
    while (clock_now_ns() < until_ns) {
        struct frame frame;
        int r = ctl_client_receive(terminal->fd, terminal->payload, ENDED_MS, &frame, &terminal->reply);

        if (r < 0)
            return;
        frame_close_fds(&frame);
        if (is_last(terminal, tag))
            return;
    }
}

void sandbox_terminal_end(struct sandbox_terminal *terminal, uint32_t grace_ms)
{
    struct ctl_request kill = { .type = CTL_REQUEST_KILL, .tag = TAG, .kill = { .signal = SIGKILL, .scope = CTL_KILL_TREE } };
    struct ctl_request end = { .type = CTL_REQUEST_END, .tag = END_TAG, .end = { .grace_ms = grace_ms } };
    struct ctl_request *request = terminal->is_piped ? &kill : &end;
    int64_t until_ns = clock_now_ns() + (grace_ms + ENDED_MS) * CLOCK_NS_PER_MS;
    struct err ignored = ERR_NONE;

    memcpy(end.end.name, terminal->name, sizeof(terminal->name));
    if (send_request(terminal, request, &ignored) == 0)
        await_end(terminal, request->tag, until_ns);
}

bool sandbox_terminal_syncs(const struct sandbox_terminal *terminal)
{
    return terminal->syncs;
}

void sandbox_terminal_sync(struct service *service, const struct caller *caller, const char *id, const char *name)
{
    struct sync_result synced = { 0 };
    struct err err = ERR_NONE;
    autoptr(sandbox_conn) conn = NULL;
    autofd int fd = -1;

    if (service_find_conn(service, caller, id, &conn, &err) < 0 || sandbox_conn_take_fd(conn, &fd, &err) < 0)
        return;
    if (sync_run(service, conn, fd, name, &synced, &err) == 0)
        sandbox_conn_give_fd(conn, steal_fd(&fd));
    else
        log_warn("changes could not be synced and stay in the sandbox", LOG_STR("sandbox_id", conn->id),
                 LOG_STR("error", err.text));
    sync_result_done(&synced);
}
