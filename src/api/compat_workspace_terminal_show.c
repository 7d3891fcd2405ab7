/* What a client of a terminal is told. */
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace_json.h"
#include "api/compat_workspace_terminal_int.h"
#include "api/compat_workspace_text.h"

void terminal_say(struct terminal *terminal, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

    json_decref(value);
    if (text)
        websocket_send(terminal->socket, false, text, strlen(text));
    free(text);
}

void terminal_complain_with(struct terminal *terminal, const char *text, int exit_code)
{
    json_t *value = json_pack("{s:s, s:o}", "type", "error", "data", compat_text(text, strlen(text)));

    if (exit_code)
        json_object_set_new(value, "code", json_integer(exit_code));
    terminal_say(terminal, value);
}

static void complain(struct terminal *terminal, const char *text)
{
    terminal_complain_with(terminal, text, 0);
}

void terminal_hang_up(struct terminal *terminal, enum websocket_status status, const char *text)
{
    websocket_close(terminal->socket, status, text);
    terminal->is_over = true;
}

void terminal_give_up(struct terminal *terminal, enum websocket_status status, const char *text)
{
    complain(terminal, text);
    terminal_hang_up(terminal, status, text);
}

static void show_text(struct terminal *terminal, bool is_err, size_t len)
{
    struct buf *cut = &terminal->cut[is_err];

    if (len == 0)
        return;
    terminal_say(terminal, json_pack("{s:s, s:o}", "type", is_err ? "stderr" : "stdout", "data", compat_text(cut->data, len)));
    memmove(cut->data, cut->data + len, cut->len - len);
    cut->len -= len;
}

void terminal_show(struct terminal *terminal, enum ctl_stream stream, const void *bytes, size_t len)
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
        show_text(terminal, is_err, compat_text_whole(terminal->cut[is_err].data, terminal->cut[is_err].len));
    }
}

/* Who hears of the end finds what it changed in the codebase. */
void terminal_show_end(struct terminal *terminal, const struct terminal_event *news)
{
    json_t *end = json_pack("{s:s, s:i}", "type", "exit", "code", news->exit_code);

    terminal->has_ended = terminal->is_over = true;
    terminal_show(terminal, CTL_STREAM_ERR, news->bytes, news->len);
    for (int i = 0; i < 2; i++)
        show_text(terminal, i, terminal->cut[i].len);
    if (news->exit_code < 0)
        complain(terminal, news->text);
    if (news->timed_out)
        json_object_set_new(end, "timedOut", json_true());
    if (news->ran_out_of_memory)
        json_object_set_new(end, "outOfMemory", json_true());
    terminal_sync(terminal);
    terminal_say(terminal, end);
    websocket_close(terminal->socket, WEBSOCKET_NORMAL, "");
}
