/* A terminal, or three pipes, over a stream in both directions. The same over a WebSocket is compat_workspace_terminal.c. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/process_spec.h"
#include "api/request.h"
#include "api/terminal_input.h"
#include "base/mem.h"
#include <sandbox/v1/terminal.pb-c.h>

#define CELLS_MAX 10000
#define CHUNK_BYTES 32768

struct conversation {
    const struct request *request;
    char id[SANDBOX_ID_MAX];
    struct sandbox_terminal *link; /* owned; NULL: not started yet */
    struct terminal_input input;
    bool keeps_alive, is_attached;
    bool input_ended; /* the client has ended its stream */
    bool has_ended;   /* the process has ended */
    bool is_over;     /* the conversation is to end */
};

/* ---- beginning ---- */

static int take_terminal_size(const Sandbox__V1__TerminalSize *size, uint16_t *rows, uint16_t *cols, struct err *err)
{
    if (!size)
        return 0;
    if (size->rows < 1 || size->rows > CELLS_MAX || size->columns < 1 || size->columns > CELLS_MAX)
        return err_invalid(err, "rows and columns must be between 1 and %d", CELLS_MAX);
    *rows = (uint16_t) size->rows;
    *cols = (uint16_t) size->columns;
    return 0;
}

static bool env_has_variable(const struct pair_list *env, const char *name)
{
    for (size_t i = 0; i < env->count; i++)
        if (strcmp(env->items[i].key, name) == 0)
            return true;
    return false;
}

static int conversation_open(struct conversation *c, const Sandbox__V1__TerminalInput__Open *in, struct err *err)
{
    autodone(process_spec) struct process_spec spec = { 0 };
    struct sandbox_command *command = &spec.command;
    int r = request_find_sandbox(c->request, in->sandbox_id, c->id, err);

    if (r == 0)
        r = process_spec_take(in->spec, &spec, err);
    if (r == 0)
        r = take_duration(in->timeout, "timeout", &command->timeout_ns, err);
    if (r == 0 && in->pipes && in->size)
        r = err_invalid(err, "pipes have no size");
    if (r == 0 && in->pipes && in->keep)
        r = err_invalid(err, "nobody can attach to pipes again: they are not kept");
    command->is_piped = in->pipes;
    command->rows = 24;
    command->cols = 80;
    if (r == 0)
        r = take_terminal_size(in->size, &command->rows, &command->cols, err);
    if (r < 0)
        return r;
    /* Programs need TERM to draw. */
    if (!in->pipes && !env_has_variable(&spec.env, "TERM"))
        pair_list_add(&spec.env, "TERM", "xterm-256color");
    c->keeps_alive = in->keep;
    return sandbox_terminal_open(c->request->service, &c->request->caller, c->id, command, &c->link, err);
}

static int conversation_attach(struct conversation *c, const Sandbox__V1__TerminalInput__Attach *in, struct err *err)
{
    uint16_t rows = 0, cols = 0;
    int r = request_find_sandbox(c->request, in->sandbox_id, c->id, err);

    if (r == 0)
        r = request_need(in->process_id, "process_id", err);
    if (r == 0)
        r = take_terminal_size(in->size, &rows, &cols, err);
    if (r == 0)
        r = sandbox_terminal_attach(c->request->service, &c->request->caller, c->id, in->process_id, &c->link, err);
    c->is_attached = true;
    return r == 0 && rows ? sandbox_terminal_resize(c->link, rows, cols, err) : r;
}

static int conversation_send_started(struct conversation *c)
{
    autodone(process_info) struct process_info info = { 0 };
    Sandbox__V1__TerminalOutput out = SANDBOX__V1__TERMINAL_OUTPUT__INIT;
    const char *name = sandbox_terminal_name(c->link);
    int r;

    out.content_case = SANDBOX__V1__TERMINAL_OUTPUT__CONTENT_STARTED;
    if (sandbox_process_find(c->request->service, &c->request->caller, c->id, name, &info, NULL) == 0) {
        out.started = make_process(c->id, &info);
    } else {
        out.started = message_new(&sandbox__v1__process__descriptor);
        out.started->id = xdup(name);
        out.started->sandbox_id = xdup(c->id);
    }
    r = call_send(c->request->call, &out.base);
    protobuf_c_message_free_unpacked(&out.started->base, NULL);
    return r;
}

static int conversation_begin(struct conversation *c, struct err *err)
{
    autorequest message = NULL;
    int r = call_recv(c->request->call, &message, err);
    const Sandbox__V1__TerminalInput *in = (const void *) message;

    if (r < 0)
        return r;
    if (r > 0 && in->content_case == SANDBOX__V1__TERMINAL_INPUT__CONTENT_OPEN)
        r = conversation_open(c, in->open, err);
    else if (r > 0 && in->content_case == SANDBOX__V1__TERMINAL_INPUT__CONTENT_ATTACH)
        r = conversation_attach(c, in->attach, err);
    else
        r = err_invalid(err, "the first message must be open or attach");
    if (r < 0)
        return r;
    c->input.link = c->link;
    c->input.is_piped = sandbox_terminal_is_piped(c->link);
    return conversation_send_started(c);
}

/* ---- from the client ---- */

static int conversation_take_message(struct conversation *c, const Sandbox__V1__TerminalInput *in, struct err *err)
{
    uint16_t rows = 0, cols = 0;
    int r;

    switch (in->content_case) {
    case SANDBOX__V1__TERMINAL_INPUT__CONTENT_DATA:
        return terminal_input_add(&c->input, in->data.data, in->data.len, err);
    case SANDBOX__V1__TERMINAL_INPUT__CONTENT_RESIZE:
        if (c->input.is_piped)
            return err_invalid(err, "pipes have no size");
        r = take_terminal_size(in->resize, &rows, &cols, err);
        return r < 0 ? r : sandbox_terminal_resize(c->link, rows, cols, err);
    case SANDBOX__V1__TERMINAL_INPUT__CONTENT_END_INPUT:
        if (!c->input.is_piped)
            return err_invalid(err, "a terminal's input has no end; type what its program takes for one");
        return terminal_input_end(&c->input, err);
    case SANDBOX__V1__TERMINAL_INPUT__CONTENT_DETACH:
        if (c->input.is_piped)
            return err_invalid(err, "nobody can attach to pipes again");
        c->keeps_alive = c->is_over = true;
        return 0;
    case SANDBOX__V1__TERMINAL_INPUT__CONTENT_OPEN:
    case SANDBOX__V1__TERMINAL_INPUT__CONTENT_ATTACH:
        return err_invalid(err, "only the first message is open or attach");
    default:
        return 0;
    }
}

static int conversation_receive_message(struct conversation *c, struct err *err)
{
    autorequest message = NULL;
    int r = call_recv(c->request->call, &message, err);

    if (r > 0)
        return conversation_take_message(c, (const void *) message, err);
    if (r < 0)
        return r;
    c->input_ended = true;
    return c->input.is_piped ? terminal_input_end(&c->input, err) : 0;
}

/* ---- from the process ---- */

static int conversation_send_output(struct conversation *c, enum ctl_stream stream, const void *bytes, size_t len)
{
    Sandbox__V1__TerminalOutput out = SANDBOX__V1__TERMINAL_OUTPUT__INIT;
    int r = 0;

    for (size_t at = 0, piece; r == 0 && at < len; at += piece) {
        piece = len - at < CHUNK_BYTES ? len - at : CHUNK_BYTES;
        const ProtobufCBinaryData data = { .data = (uint8_t *) bytes + at, .len = piece };
        if (c->input.is_piped && stream == CTL_STREAM_ERR) {
            out.content_case = SANDBOX__V1__TERMINAL_OUTPUT__CONTENT_ERROR_OUTPUT;
            out.error_output = data;
        } else {
            out.content_case = SANDBOX__V1__TERMINAL_OUTPUT__CONTENT_OUTPUT;
            out.output = data;
        }
        r = call_send(c->request->call, &out.base);
    }
    return r;
}

/* Syncs the process's changes to the codebase, if the sandbox has one, before the client hears of the end. */
static void conversation_sync(struct conversation *c)
{
    struct caller caller = c->request->caller;

    caller.cancel_fd = -1;
    if (sandbox_terminal_syncs(c->link))
        sandbox_terminal_sync(c->request->service, &caller, c->id, sandbox_terminal_name(c->link));
}

static int conversation_send_exit(struct conversation *c, const struct terminal_event *news)
{
    Sandbox__V1__TerminalOutput out = SANDBOX__V1__TERMINAL_OUTPUT__INIT;
    Sandbox__V1__TerminalExit end = SANDBOX__V1__TERMINAL_EXIT__INIT;
    int r = conversation_send_output(c, CTL_STREAM_ERR, news->bytes, news->len);

    c->has_ended = c->is_over = true;
    conversation_sync(c);
    if (r < 0)
        return r;
    end.exit_code = news->exit_code < 0 ? 0 : news->exit_code;
    end.lost = news->exit_code < 0;
    end.timed_out = news->timed_out;
    end.out_of_memory = news->ran_out_of_memory;
    out.content_case = SANDBOX__V1__TERMINAL_OUTPUT__CONTENT_EXIT;
    out.exit = &end;
    return call_send(c->request->call, &out.base);
}

static int conversation_receive_event(struct conversation *c, struct err *err)
{
    struct terminal_event news;
    int r = sandbox_terminal_receive(c->link, &news, err);

    if (r < 0) {
        c->has_ended = true;
        return r;
    }
    switch (news.kind) {
    case TERMINAL_OUTPUT:
        return conversation_send_output(c, news.stream, news.bytes, news.len);
    case TERMINAL_TAKEN:
        return terminal_input_taken(&c->input, err);
    case TERMINAL_ENDED:
        return conversation_send_exit(c, &news);
    case TERMINAL_NOTHING:
        break;
    }
    return 0;
}

/* ---- both ---- */

static int conversation_run(struct conversation *c, struct err *err)
{
    int client_fd = call_input_fd(c->request->call), r = 0;

    while (r == 0 && !c->is_over) {
        bool reads = !c->input_ended && terminal_input_is_empty(&c->input);
        struct pollfd fds[] = {
            { .fd = reads ? client_fd : -1, .events = POLLIN },
            { .fd = sandbox_terminal_fd(c->link), .events = POLLIN },
            { .fd = c->request->caller.cancel_fd, .events = POLLIN },
            { .fd = sandbox_terminal_input_fd(c->link), .events = POLLOUT },
        };

        if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
            return err_errno(err, -errno, "waiting for a terminal");
        if (fds[2].revents)
            return -ECANCELED;
        if (fds[3].revents)
            r = terminal_input_feed(&c->input, err);
        if (r == 0 && fds[1].revents)
            r = conversation_receive_event(c, err);
        if (r == 0 && fds[0].revents && !c->is_over)
            r = conversation_receive_message(c, err);
    }
    return r;
}

/* Ends a process that no client is attached to and that was not to be kept. A server that shuts down leaves its processes alone. */
static void conversation_leave(struct conversation *c)
{
    if (c->link && !c->has_ended && !c->keeps_alive && !c->is_attached && !service_is_ending(c->request->service)) {
        sandbox_terminal_end(c->link, SANDBOX_GRACE_MS_DEFAULT);
        conversation_sync(c);
    }
    sandbox_terminal_close(steal_ptr(&c->link));
    buf_done(&c->input.typed);
}

static int open_terminal(struct call *call, void *cookie, struct err *err)
{
    struct request request;
    struct conversation c = { .request = &request };
    int r = request_admit(call, cookie, &request, err);

    if (r < 0)
        return r;
    if (call_input_fd(call) < 0)
        return err_set(err, ERR_UNIMPLEMENTED, -EOPNOTSUPP, "a terminal needs a stream in both directions");
    r = conversation_begin(&c, err);
    if (r == 0)
        r = conversation_run(&c, err);
    conversation_leave(&c);
    return r;
}

int handle_open_terminal(struct call *call, void *cookie, struct err *err)
{
    return request_end(call, open_terminal(call, cookie, err), err);
}
