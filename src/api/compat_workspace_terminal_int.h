/* Inside the module: one terminal, or the pipes in its place, and who is at its other end. */
#pragma once

#include "api/compat_workspace_call.h"
#include "api/terminal_input.h"
#include "base/buf.h"
#include "call/websocket.h"
#include "service/sandbox_terminal.h"

struct terminal {
    struct ws *ws;
    struct websocket *socket;      /* borrowed */
    struct sandbox_terminal *link; /* owned; NULL: not begun */
    bool is_binary, keeps_alive;
    bool is_piped;
    struct terminal_input input;
    struct buf cut[2]; /* of each stream the beginning of a character */
    bool has_ended;    /* the process has */
    bool is_over;      /* we are to end */
    bool is_detaching; /* and it goes on */
};

/* ---- to the client ---- */

/* Takes the value. */
void terminal_say(struct terminal *terminal, json_t *value);
/* `exit_code` 0: none comes of it. */
void terminal_complain_with(struct terminal *terminal, const char *text, int exit_code);
void terminal_hang_up(struct terminal *terminal, enum websocket_status status, const char *text);
/* Says why, and ends. */
void terminal_give_up(struct terminal *terminal, enum websocket_status status, const char *text);
void terminal_show(struct terminal *terminal, enum ctl_stream stream, const void *bytes, size_t len);
void terminal_show_end(struct terminal *terminal, const struct terminal_event *news);

/* What it changed goes into the codebase, if it has one and the service can be had. */
void terminal_sync(struct terminal *terminal);
