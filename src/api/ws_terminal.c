/*
 * A terminal over a WebSocket: exec-interactive.
 *
 *     client                                          server
 *       │  {command, args?, ..., cols?, rows?}           │   first; or {attach: PROCESS}, or ?attach=PROCESS and nothing
 *       │────────────────────────────────────────────────▶
 *       │             {type: "started", id, pid}         │
 *       ◀────────────────────────────────────────────────│
 *       │  {type: "stdin", data}, or a binary message    │
 *       │  {type: "resize", cols, rows}, {type: "ping"}  │
 *       │  {type: "detach"}                              │   the process goes on
 *       │────────────────────────────────────────────────▶
 *       │  {type: "stdout", data}, or binary messages    │   these when the first frame says binary: true, or ?binary=true
 *       │  {type: "pong"}, {type: "error", data}         │
 *       │  {type: "exit", code}                          │   and the end
 *       ◀────────────────────────────────────────────────│
 *
 * When the connection ends otherwise, the process is ended like that of a terminal that is closed, unless it was to be kept (keepAlive).
 * It holds a thread of the pool while somebody is attached, as every stream does.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/ws_command.h"
#include "api/ws_handlers.h"
#include "api/ws_json.h"
#include "api/ws_text.h"
#include "base/clock.h"
#include "base/mem.h"
#include "service/workspace_terminal.h"

#define FIRST_FRAME_MS 30000
#define CLOSE_MS 5000
#define SIZE_MAX_CELLS 10000

struct terminal {
    struct ws *ws;
    struct websocket *socket;        /* borrowed */
    struct workspace_terminal *link; /* owned; NULL: not begun */
    bool is_binary, keeps_alive;
    bool awaits_taking; /* what was typed last is not in the terminal yet */
    struct buf typed;   /* what is to be typed */
    struct buf cut;     /* the beginning of a character */
    bool has_ended;     /* the process has */
    bool is_over;       /* we are to end */
    bool is_detaching;  /* and it goes on */
};

/* ---- to the client ---- */

/* Takes the value. */
static void say(struct terminal *terminal, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

    json_decref(value);
    if (text)
        websocket_send(terminal->socket, false, text, strlen(text));
    free(text);
}

static void complain(struct terminal *terminal, const char *text)
{
    json_t *value = json_pack("{s:s, s:o}", "type", "error", "data", ws_text(text, strlen(text)));

    say(terminal, value);
}

/* Says why, and ends. */
static void give_up(struct terminal *terminal, enum websocket_status status, const char *text)
{
    complain(terminal, text);
    websocket_close(terminal->socket, status, text);
    terminal->is_over = true;
}

static void show(struct terminal *terminal, const void *bytes, size_t len)
{
    if (terminal->is_binary) {
        websocket_send(terminal->socket, true, bytes, len);
        return;
    }
    buf_add(&terminal->cut, bytes, len);
    size_t whole = ws_text_whole(terminal->cut.data, terminal->cut.len);
    if (whole > 0)
        say(terminal, json_pack("{s:s, s:o}", "type", "stdout", "data", ws_text(terminal->cut.data, whole)));
    memmove(terminal->cut.data, terminal->cut.data + whole, terminal->cut.len - whole);
    terminal->cut.len -= whole;
}

static void show_end(struct terminal *terminal, const struct terminal_news *news)
{
    terminal->has_ended = terminal->is_over = true;
    if (terminal->cut.len > 0)
        say(terminal, json_pack("{s:s, s:o}", "type", "stdout", "data", ws_text(terminal->cut.data, terminal->cut.len)));
    if (news->exit_code < 0)
        complain(terminal, news->text);
    say(terminal, json_pack("{s:s, s:i}", "type", "exit", "code", news->exit_code));
    websocket_close(terminal->socket, WEBSOCKET_NORMAL, "");
}

/* ---- to the process ---- */

/* One message at a time is on its way; the WebSocket is not read until it is taken. */
static void type_next(struct terminal *terminal)
{
    size_t len = terminal->typed.len < WORKSPACE_TERMINAL_TYPE_MAX ? terminal->typed.len : WORKSPACE_TERMINAL_TYPE_MAX;
    struct err err = ERR_NONE;

    if (terminal->awaits_taking || len == 0)
        return;
    if (workspace_terminal_type(terminal->link, terminal->typed.data, len, &err) < 0) {
        give_up(terminal, WEBSOCKET_INTERNAL_ERROR, err.text);
        return;
    }
    terminal->awaits_taking = true;
    memmove(terminal->typed.data, terminal->typed.data + len, terminal->typed.len - len);
    terminal->typed.len -= len;
}

static void type(struct terminal *terminal, const void *bytes, size_t len)
{
    buf_add(&terminal->typed, bytes, len);
    type_next(terminal);
}

/* ---- from the client ---- */

static int read_size(const json_t *object, int64_t *rows, int64_t *cols, struct err *err)
{
    int r = ws_get_int(object, "rows", 1, SIZE_MAX_CELLS, rows, err);

    return r < 0 ? r : ws_get_int(object, "cols", 1, SIZE_MAX_CELLS, cols, err);
}

static void greet(struct terminal *terminal)
{
    autodone(process_info) struct process_info info = { 0 };
    struct ws *ws = terminal->ws;
    json_t *value = json_pack("{s:s, s:s}", "type", "started", "id", workspace_terminal_name(terminal->link));

    if (workspace_process_find(ws->service, &ws->caller, ws->id, workspace_terminal_name(terminal->link), &info, NULL) == 0)
        json_object_set_new(value, "pid", json_integer(info.record.pid));
    say(terminal, value);
}

static int attach(struct terminal *terminal, const char *which, struct err *err)
{
    struct ws *ws = terminal->ws;

    /* Who comes back was away before, and may be again. */
    terminal->keeps_alive = true;
    return workspace_terminal_attach(ws->service, &ws->caller, ws->id, which, &terminal->link, err);
}

static int open_new(struct terminal *terminal, const json_t *object, struct err *err)
{
    autodone(ws_command) struct ws_command command = { 0 };
    int64_t rows = 24, cols = 80;
    struct ws *ws = terminal->ws;
    int r = ws_command_read(object, &command, err);

    if (r == 0)
        r = read_size(object, &rows, &cols, err);
    if (r < 0)
        return r;
    command.command.rows = (uint16_t) rows;
    command.command.cols = (uint16_t) cols;
    /* What a program needs to know to draw; unless told otherwise. */
    if (!json_object_get(json_object_get(object, "env"), "TERM"))
        pair_list_add(&command.env, "TERM", "xterm-256color");
    return workspace_terminal_open(ws->service, &ws->caller, ws->id, &command.command, &terminal->link, err);
}

static void begin(struct terminal *terminal, const json_t *object)
{
    struct err err = ERR_NONE;
    const char *which = NULL;
    int r = ws_get_bool(object, "binary", &terminal->is_binary, &err);

    if (r == 0)
        r = ws_get_bool(object, "keepAlive", &terminal->keeps_alive, &err);
    if (r == 0)
        r = ws_get_text(object, "attach", 0, &which, &err);
    if (r == 0)
        r = which ? attach(terminal, which, &err) : open_new(terminal, object, &err);
    if (r < 0)
        give_up(terminal, err.code == ERR_INVALID_ARGUMENT ? WEBSOCKET_POLICY : WEBSOCKET_INTERNAL_ERROR, err.text);
    else
        greet(terminal);
}

static void resize(struct terminal *terminal, const json_t *object, struct err *err)
{
    int64_t rows = 24, cols = 80;

    if (read_size(object, &rows, &cols, err) == 0)
        workspace_terminal_resize(terminal->link, (uint16_t) rows, (uint16_t) cols, err);
}

static void take_message(struct terminal *terminal, const json_t *object)
{
    struct err err = ERR_NONE;
    const char *kind = "", *data = "";
    size_t len = 0;

    if (ws_get_text(object, "type", 0, &kind, &err) == 0 && strcmp(kind, "stdin") == 0) {
        if (ws_get_text(object, "data", WEBSOCKET_MESSAGE_MAX, &data, &err) == 0)
            len = strlen(data);
        if (len > 0)
            type(terminal, data, len);
    } else if (strcmp(kind, "resize") == 0) {
        resize(terminal, object, &err);
    } else if (strcmp(kind, "ping") == 0) {
        say(terminal, json_pack("{s:s}", "type", "pong"));
    } else if (strcmp(kind, "detach") == 0) {
        terminal->is_over = terminal->is_detaching = true;
        websocket_close(terminal->socket, WEBSOCKET_NORMAL, "detached");
    } else if (err.code == ERR_OK) {
        err_refuse(&err, -EINVAL, kind, "is no type of a message; there are 'stdin', 'resize', 'ping' and 'detach'");
    }
    if (err.code != ERR_OK)
        complain(terminal, err.text);
}

/* NUL is something that people type (Ctrl-Space), and jansson refuses it in texts unless it is told to take it; such go as binary. */
static int on_message(bool is_binary, const void *bytes, size_t len, void *cookie)
{
    struct terminal *terminal = cookie;
    json_t *object;

    if (terminal->is_over)
        return -EPIPE;
    if (is_binary && terminal->link) {
        if (len > 0)
            type(terminal, bytes, len);
        return 0;
    }
    object = is_binary ? NULL : json_loadb(bytes, len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(object))
        give_up(terminal, WEBSOCKET_POLICY, "a message is no JSON object");
    else if (!terminal->link)
        begin(terminal, object);
    else
        take_message(terminal, object);
    json_decref(object);
    return terminal->is_over ? -EPIPE : 0;
}

/* ---- from the process ---- */

static void receive(struct terminal *terminal)
{
    struct err err = ERR_NONE;
    struct terminal_news news;

    if (workspace_terminal_receive(terminal->link, &news, &err) < 0) {
        terminal->has_ended = true;
        give_up(terminal, WEBSOCKET_GOING_AWAY, err.text);
        return;
    }
    if (news.kind == TERMINAL_OUTPUT) {
        show(terminal, news.bytes, news.len);
    } else if (news.kind == TERMINAL_ENDED) {
        show_end(terminal, &news);
    } else if (news.kind == TERMINAL_TAKEN) {
        terminal->awaits_taking = false;
        type_next(terminal);
    }
}

static void serve(struct terminal *terminal)
{
    struct websocket *socket = terminal->socket;
    int64_t first_by_ns = clock_now_ns() + FIRST_FRAME_MS * CLOCK_NS_PER_MS;

    while (!terminal->is_over) {
        bool has_room = websocket_queued(socket) < WEBSOCKET_QUEUE_MAX / 2;
        int timeout = websocket_timeout_ms(socket);

        websocket_hold(socket, terminal->typed.len > 0);
        struct pollfd fds[] = {
            { .fd = websocket_fd(socket), .events = websocket_events(socket) },
            { .fd = has_room && terminal->link ? workspace_terminal_fd(terminal->link) : -1, .events = POLLIN },
            { .fd = terminal->ws->caller.cancel_fd, .events = POLLIN },
        };
        if (!terminal->link && timeout > 1000)
            timeout = 1000;
        if (poll(fds, ARRAY_LEN(fds), timeout) < 0 && errno != EINTR)
            return;
        if (fds[2].revents)
            return;
        if (fds[1].revents)
            receive(terminal);
        if (websocket_work(socket, fds[0].revents) < 0)
            return;
        if (!terminal->link && !terminal->is_over && clock_now_ns() > first_by_ns)
            give_up(terminal, WEBSOCKET_POLICY, "the first message did not come");
    }
}

/* What nobody is attached to any more and nobody wanted to keep. A server that ends takes nothing with it. */
static void leave(struct terminal *terminal)
{
    struct ws *ws = terminal->ws;
    struct caller caller = ws->caller;
    struct err err = ERR_NONE;

    if (!terminal->link)
        return;
    autofree char *name = xdup(workspace_terminal_name(terminal->link));
    workspace_terminal_close(steal_ptr(&terminal->link));
    caller.cancel_fd = -1;
    if (!terminal->has_ended && !terminal->keeps_alive && !terminal->is_detaching && !workspace_is_ending(ws->service))
        workspace_process_end(ws->service, &caller, ws->id, name, WORKSPACE_GRACE_MS_DEFAULT, &err);
}

int ws_terminal(struct ws *ws, struct err *err)
{
    struct terminal terminal = { .ws = ws };
    const char *which = web_query(ws->web, "attach");
    struct websocket *socket = NULL;
    int r = workspace_check_active(ws->service, &ws->caller, ws->id, err);

    if (r == 0)
        r = ws_query_bool(ws, "binary", &terminal.is_binary, err);
    if (r == 0 && which && *which)
        r = attach(&terminal, which, err);
    if (r == 0)
        r = web_upgrade(ws->web, NULL, on_message, &terminal, &socket, err);
    if (r == -EPROTONOSUPPORT) {
        ws->status = 426;
        ws_hint(ws, "ask with a client that speaks WebSocket, version 13");
    }
    if (r == 0) {
        terminal.socket = socket;
        if (terminal.link)
            greet(&terminal);
        serve(&terminal);
        websocket_finish(socket, CLOSE_MS, ws->caller.cancel_fd);
        web_hang_up(ws->web, socket);
    }
    leave(&terminal);
    buf_done(&terminal.typed);
    buf_done(&terminal.cut);
    return r;
}
