/*
 * A terminal, or three pipes, over a WebSocket: exec-interactive.
 *
 *     client                                          server
 *       │  {command, args?, ..., cols?, rows?}           │   first; or {attach: PROCESS}, or ?attach=PROCESS and nothing
 *       │────────────────────────────────────────────────▶
 *       │             {type: "started", id, pid}         │
 *       ◀────────────────────────────────────────────────│
 *       │  {type: "stdin", data}, or a binary message    │
 *       │  {type: "resize", cols, rows}, {type: "ping"}  │
 *       │  {type: "detach"}                              │   the process goes on; not with pipes
 *       │  {type: "eof"}                                 │   with pipes: no more input
 *       │────────────────────────────────────────────────▶
 *       │  {type: "stdout", data}, or binary messages    │   these when the first frame says binary: true, or ?binary=true
 *       │  {type: "stderr", data}                        │   with pipes; binary ones begin with a byte then, 1 or 2
 *       │  {type: "pong"}, {type: "error", data, code?}  │
 *       │  {type: "exit", code, timedOut?}               │   and the end
 *       ◀────────────────────────────────────────────────│
 *
 * With tty: false in the first message the process has ended pipes instead of a terminal. If the connection breaks, the server ends the process as if its
 * terminal had been closed, unless keepAlive was set; it kills a process with pipes. An attached client occupies a thread of the pool, as every stream
 * does.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/compat_workspace.h"
#include "api/terminal_input.h"
#include "base/clock.h"
#include "base/mem.h"
#include "call/websocket.h"
#include "service/known_keys.h"
#include "service/sandbox_terminal.h"

#define FIRST_FRAME_MS 30000
#define FIRST_FRAME_MAX ((size_t) 4 << 20) /* like the body of a request, because commands may be long */
#define CLOSE_MS 5000
#define SLOW_MS 3600000 /* a reader with a pager may take long, and silence reveals a dead client */
#define SIZE_MAX_CELLS 10000

/* A process with a terminal or with pipes, and the client at the other end. */
struct terminal {
    struct ws *ws;
    struct websocket *socket;      /* borrowed */
    struct sandbox_terminal *link; /* owned; NULL: not started yet */
    bool is_binary, keeps_alive;
    bool is_piped;
    struct terminal_input input;
    struct buf cut[2]; /* of each stream, the beginning of an incomplete character */
    bool has_ended;    /* the process has */
    bool is_over;      /* the conversation is to end */
    bool is_detaching; /* the client detached, and the process goes on */
};

/* ---- to the client ---- */

static void terminal_say(struct terminal *terminal, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

    json_decref(value);
    if (text)
        websocket_send(terminal->socket, false, text, strlen(text));
    free(text);
}

static void terminal_complain_with(struct terminal *terminal, const char *text, int exit_code)
{
    json_t *value = json_pack("{s:s, s:o}", "type", "error", "data", compat_text(text, strlen(text)));

    if (exit_code)
        json_object_set_new(value, "code", json_integer(exit_code));
    terminal_say(terminal, value);
}

static void terminal_complain(struct terminal *terminal, const char *text)
{
    terminal_complain_with(terminal, text, 0);
}

static void terminal_hang_up(struct terminal *terminal, enum websocket_status status, const char *text)
{
    websocket_close(terminal->socket, status, text);
    terminal->is_over = true;
}

static void terminal_give_up(struct terminal *terminal, enum websocket_status status, const char *text)
{
    terminal_complain(terminal, text);
    terminal_hang_up(terminal, status, text);
}

static void terminal_show_text(struct terminal *terminal, bool is_err, size_t len)
{
    struct buf *cut = &terminal->cut[is_err];

    if (len == 0)
        return;
    terminal_say(terminal, json_pack("{s:s, s:o}", "type", is_err ? "stderr" : "stdout", "data", compat_text(cut->data, len)));
    memmove(cut->data, cut->data + len, cut->len - len);
    cut->len -= len;
}

static void terminal_show(struct terminal *terminal, enum ctl_stream stream, const void *bytes, size_t len)
{
    bool is_err = terminal->is_piped && stream == CTL_STREAM_ERR;
    autodone(buf) struct buf marked = BUF_EMPTY;

    if (len == 0)
        return;
    if (terminal->is_binary && terminal->is_piped) {
        buf_add_char(&marked, is_err ? 2 : 1);
        buf_add(&marked, bytes, len);
        websocket_send(terminal->socket, true, marked.data, marked.len);
    } else if (terminal->is_binary) {
        websocket_send(terminal->socket, true, bytes, len);
    } else {
        buf_add(&terminal->cut[is_err], bytes, len);
        terminal_show_text(terminal, is_err, compat_text_whole(terminal->cut[is_err].data, terminal->cut[is_err].len));
    }
}

/* Syncs the process's changes to the codebase, if the sandbox has one. */
static void terminal_sync(struct terminal *terminal)
{
    struct ws *ws = terminal->ws;
    struct caller caller = ws->caller;

    caller.cancel_fd = -1;
    if (sandbox_terminal_syncs(terminal->link))
        sandbox_terminal_sync(ws->service, &caller, ws->id, sandbox_terminal_name(terminal->link));
}

/* Syncs before it announces the end, so that the client finds the changes in the codebase. */
static void terminal_show_end(struct terminal *terminal, const struct terminal_event *news)
{
    json_t *end = json_pack("{s:s, s:i}", "type", "exit", "code", news->exit_code);

    terminal->has_ended = terminal->is_over = true;
    terminal_show(terminal, CTL_STREAM_ERR, news->bytes, news->len);
    for (int i = 0; i < 2; i++)
        terminal_show_text(terminal, i, terminal->cut[i].len);
    if (news->exit_code < 0)
        terminal_complain(terminal, news->text);
    if (news->timed_out)
        json_object_set_new(end, "timedOut", json_true());
    if (news->ran_out_of_memory)
        json_object_set_new(end, "outOfMemory", json_true());
    terminal_sync(terminal);
    terminal_say(terminal, end);
    websocket_close(terminal->socket, WEBSOCKET_NORMAL, "");
}

/* ---- to the process ---- */

static void terminal_check_input(struct terminal *terminal, int r, const struct err *err)
{
    if (r < 0 && !terminal->is_over)
        terminal_give_up(terminal, WEBSOCKET_INTERNAL_ERROR, err->text);
}

/* Pauses the WebSocket until the process has accepted the input: otherwise a fast client would fill our memory. */
static void terminal_type(struct terminal *terminal, const void *bytes, size_t len)
{
    struct err err = ERR_NONE;

    terminal_check_input(terminal, terminal_input_add(&terminal->input, bytes, len, &err), &err);
    websocket_pause(terminal->socket, !terminal_input_is_empty(&terminal->input));
}

static void terminal_end_input(struct terminal *terminal)
{
    struct err err = ERR_NONE;

    terminal_check_input(terminal, terminal_input_end(&terminal->input, &err), &err);
}

/* ---- from the client ---- */

/* The exit code that a shell uses for a command that could not be started. */
static int terminal_exit_code(const struct err *err)
{
    if (!err->reason)
        return 0;
    return strcmp(err->reason, "COMMAND_NOT_FOUND") == 0 ? 127 : strcmp(err->reason, "COMMAND_NOT_EXECUTABLE") == 0 ? 126 : 0;
}

static int terminal_read_size(const json_t *object, int64_t *rows, int64_t *cols, struct err *err)
{
    int r = compat_get_int(object, "rows", 1, SIZE_MAX_CELLS, rows, err);

    return r < 0 ? r : compat_get_int(object, "cols", 1, SIZE_MAX_CELLS, cols, err);
}

static void terminal_greet(struct terminal *terminal)
{
    autodone(process_info) struct process_info info = { 0 };
    struct ws *ws = terminal->ws;
    json_t *value = json_pack("{s:s, s:s}", "type", "started", "id", sandbox_terminal_name(terminal->link));

    if (sandbox_process_find(ws->service, &ws->caller, ws->id, sandbox_terminal_name(terminal->link), &info, NULL) == 0)
        json_object_set_new(value, "pid", json_integer(info.record.pid));
    terminal_say(terminal, value);
    terminal->input.link = terminal->link;
    terminal->input.is_piped = terminal->is_piped;
}

static int terminal_attach(struct terminal *terminal, const char *which, struct err *err)
{
    struct ws *ws = terminal->ws;

    /* A client that attaches again may leave again. */
    terminal->keeps_alive = true;
    return sandbox_terminal_attach(ws->service, &ws->caller, ws->id, which, &terminal->link, err);
}

static int terminal_open(struct terminal *terminal, const json_t *object, struct err *err)
{
    autodone(compat_command) struct compat_command command = { 0 };
    int64_t rows = 24, cols = 80;
    bool is_tty = true;
    struct ws *ws = terminal->ws;
    int r = compat_command_read(object, &command, err);

    if (r == 0)
        r = terminal_read_size(object, &rows, &cols, err);
    if (r == 0)
        r = compat_read(object, err, { "tty", .flag = &is_tty }, { "timeout", .duration_ns = &command.command.timeout_ns });
    if (r < 0)
        return r;
    terminal->is_piped = command.command.is_piped = !is_tty;
    if (!is_tty)
        return sandbox_terminal_open(ws->service, &ws->caller, ws->id, &command.command, &terminal->link, err);
    command.command.rows = (uint16_t) rows;
    command.command.cols = (uint16_t) cols;
    /* Programs need TERM to draw. */
    if (!json_object_get(json_object_get(object, "env"), "TERM"))
        pair_list_add(&command.env, "TERM", "xterm-256color");
    return sandbox_terminal_open(ws->service, &ws->caller, ws->id, &command.command, &terminal->link, err);
}

static void terminal_begin(struct terminal *terminal, const json_t *object)
{
    static const char *const keys[] = { "command",      "args",           "allowNetwork",  "env",        "workingDir",
                                        "sessionId",    "isolationLevel", "memoryLimitMB", "cpuTimeSec", "timeoutSec",
                                        "maxProcesses", "maxOpenFiles",   "name",          "stdin",      "stdinEncoding",
                                        "rows",         "cols",           "tty",           "timeout",    "binary",
                                        "keepAlive",    "interactive",    "attach",        NULL };
    struct err err = ERR_NONE;
    const char *which = NULL;
    bool wants_input = true;
    int r = known_keys_check(object, keys, "the first message", &err);

    if (r == 0)
        r = compat_read(object, &err, { "binary", .flag = &terminal->is_binary },
                        { "keepAlive", .flag = &terminal->keeps_alive }, { "interactive", .flag = &wants_input },
                        { "attach", .text = &which });
    if (r == 0)
        r = which ? terminal_attach(terminal, which, &err) : terminal_open(terminal, object, &err);
    if (r < 0) {
        terminal_complain_with(terminal, err.text, terminal_exit_code(&err));
        terminal_hang_up(terminal, err.code == ERR_INVALID_ARGUMENT ? WEBSOCKET_POLICY : WEBSOCKET_INTERNAL_ERROR, err.text);
        return;
    }
    websocket_set_message_max(terminal->socket, WEBSOCKET_MESSAGE_MAX);
    terminal_greet(terminal);
    if (terminal->is_piped && !wants_input)
        sandbox_terminal_end_input(terminal->link);
}

static void terminal_resize(struct terminal *terminal, const json_t *object, struct err *err)
{
    int64_t rows = 24, cols = 80;

    if (terminal_read_size(object, &rows, &cols, err) == 0)
        sandbox_terminal_resize(terminal->link, (uint16_t) rows, (uint16_t) cols, err);
}

static void terminal_take_message(struct terminal *terminal, const json_t *object)
{
    struct err err = ERR_NONE;
    const char *kind = "", *data = "";
    size_t len = 0;

    if (compat_get_text(object, "type", 0, &kind, &err) == 0 && strcmp(kind, "stdin") == 0) {
        if (compat_get_text(object, "data", WEBSOCKET_MESSAGE_MAX, &data, &err) == 0)
            len = strlen(data);
        if (len > 0)
            terminal_type(terminal, data, len);
    } else if (strcmp(kind, "eof") == 0 && terminal->is_piped) {
        terminal_end_input(terminal);
    } else if (strcmp(kind, "resize") == 0 && !terminal->is_piped) {
        terminal_resize(terminal, object, &err);
    } else if (strcmp(kind, "ping") == 0) {
        terminal_say(terminal, json_pack("{s:s}", "type", "pong"));
    } else if (strcmp(kind, "detach") == 0 && !terminal->is_piped) {
        terminal->is_over = terminal->is_detaching = true;
        websocket_close(terminal->socket, WEBSOCKET_NORMAL, "detached");
    } else if (err.code == ERR_OK) {
        err_reject(&err, -EINVAL, kind,
                   terminal->is_piped ? "is no type of a message; there are 'stdin', 'eof' and 'ping'"
                                      : "is no type of a message; there are 'stdin', 'resize', 'ping' and 'detach'");
    }
    if (err.code != ERR_OK)
        terminal_complain_with(terminal, err.text, 0);
}

/* jansson rejects NUL, which people type with Ctrl-Space, in texts, so clients send it in a binary message. */
static int terminal_on_message(bool is_binary, const void *bytes, size_t len, void *cookie)
{
    struct terminal *terminal = cookie;
    json_t *object;

    if (terminal->is_over)
        return -EPIPE;
    if (is_binary && terminal->link) {
        if (len > 0)
            terminal_type(terminal, bytes, len);
        return 0;
    }
    object = is_binary ? NULL : json_loadb(bytes, len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(object))
        terminal_give_up(terminal, WEBSOCKET_POLICY, "a message is no JSON object");
    else if (!terminal->link)
        terminal_begin(terminal, object);
    else
        terminal_take_message(terminal, object);
    json_decref(object);
    return terminal->is_over ? -EPIPE : 0;
}

/* ---- from the process ---- */

static void terminal_receive(struct terminal *terminal)
{
    struct err err = ERR_NONE;
    struct terminal_event news;

    if (sandbox_terminal_receive(terminal->link, &news, &err) < 0) {
        terminal->has_ended = true;
        terminal_give_up(terminal, WEBSOCKET_GOING_AWAY, err.text);
        return;
    }
    if (news.kind == TERMINAL_OUTPUT) {
        terminal_show(terminal, news.stream, news.bytes, news.len);
    } else if (news.kind == TERMINAL_ENDED) {
        terminal_show_end(terminal, &news);
    } else if (news.kind == TERMINAL_TAKEN) {
        terminal_check_input(terminal, terminal_input_taken(&terminal->input, &err), &err);
    }
}

static void terminal_serve(struct terminal *terminal)
{
    struct websocket *socket = terminal->socket;
    struct err err = ERR_NONE;
    int64_t first_by_ns = clock_now_ns() + FIRST_FRAME_MS * CLOCK_NS_PER_MS;

    while (!terminal->is_over) {
        bool has_room = websocket_queued(socket) < WEBSOCKET_QUEUE_MAX / 2;
        int timeout = websocket_timeout_ms(socket);

        websocket_pause(socket, !terminal_input_is_empty(&terminal->input));
        struct pollfd fds[] = {
            { .fd = websocket_fd(socket), .events = websocket_events(socket) },
            { .fd = has_room && terminal->link ? sandbox_terminal_fd(terminal->link) : -1, .events = POLLIN },
            { .fd = terminal->ws->caller.cancel_fd, .events = POLLIN },
            { .fd = terminal->link ? sandbox_terminal_input_fd(terminal->link) : -1, .events = POLLOUT },
        };
        if (!terminal->link && timeout > 1000)
            timeout = 1000;
        if (poll(fds, ARRAY_LEN(fds), timeout) < 0 && errno != EINTR)
            return;
        if (fds[2].revents)
            return;
        if (fds[3].revents)
            terminal_check_input(terminal, terminal_input_feed(&terminal->input, &err), &err);
        if (fds[1].revents)
            terminal_receive(terminal);
        if (websocket_work(socket, fds[0].revents) < 0)
            return;
        if (!terminal->link && !terminal->is_over && clock_now_ns() > first_by_ns)
            terminal_give_up(terminal, WEBSOCKET_POLICY, "the first message did not come");
    }
}

/* Ends a process that no client is attached to and that was not to be kept. A server that shuts down leaves its processes alone. */
static void terminal_leave(struct terminal *terminal)
{
    struct ws *ws = terminal->ws;

    if (terminal->link && !terminal->has_ended && !terminal->keeps_alive && !terminal->is_detaching &&
        !(ws->service && service_is_ending(ws->service))) {
        sandbox_terminal_end(terminal->link, SANDBOX_GRACE_MS_DEFAULT);
        terminal_sync(terminal);
    }
    sandbox_terminal_close(steal_ptr(&terminal->link));
}

int compat_terminal(struct ws *ws, struct err *err)
{
    struct terminal terminal = { .ws = ws };
    const struct websocket_options options = { .message_max = FIRST_FRAME_MAX, .write_ms = SLOW_MS };
    const char *which = web_query(ws->web, "attach");
    struct websocket *socket = NULL;
    int r = sandbox_check_active(ws->service, &ws->caller, ws->id, err);

    if (r == 0)
        r = compat_query_bool(ws, "binary", &terminal.is_binary, err);
    if (r == 0 && which && *which)
        r = terminal_attach(&terminal, which, err);
    if (r == 0)
        r = web_upgrade(ws->web, &options, terminal_on_message, &terminal, &socket, err);
    if (r == -EPROTONOSUPPORT) {
        ws->status = 426;
        compat_hint(ws, "ask with a client that speaks WebSocket, version 13");
    }
    if (r == 0) {
        terminal.socket = socket;
        if (terminal.link) {
            websocket_set_message_max(socket, WEBSOCKET_MESSAGE_MAX);
            terminal_greet(&terminal);
        }
        terminal_serve(&terminal);
        websocket_finish(socket, terminal.has_ended ? SLOW_MS : CLOSE_MS, ws->caller.cancel_fd);
        web_hang_up(ws->web, socket);
    }
    terminal_leave(&terminal);
    buf_done(&terminal.input.typed);
    buf_done(&terminal.cut[0]);
    buf_done(&terminal.cut[1]);
    return r;
}
