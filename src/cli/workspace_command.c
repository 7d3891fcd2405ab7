#include "cli/workspace_command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/console.h"
#include "cli/grid.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "cli/workspace.h"
#include "cli/workspace_table.h"
#include "client/event_stream.h"
#include "rest/base64.h"

#define NS_PER_SEC INT64_C(1000000000)

/* ---- what is asked ---- */

static int add_words(json_t *body, char *const *words, struct err *err)
{
    bool is_line = words[0] && !words[1];
    json_t *args = json_array();
    int failed = 0;

    json_object_set_new(body, "command", is_line ? json_string("/bin/sh") : json_string(words[0]));
    if (is_line)
        json_array_append_new(args, json_string("-c"));
    for (size_t i = is_line ? 0 : 1; words[i]; i++)
        failed |= json_array_append_new(args, json_string(words[i]));
    json_object_set_new(body, "args", args);
    return failed || !json_object_get(body, "command") ? err_invalid(err, "the command is not UTF-8") : 0;
}

static void add_env(json_t *body, const struct entry_list *env)
{
    json_t *map = json_object();

    for (size_t i = 0; i < env->count; i++)
        json_object_set_new(map, env->items[i]->key, json_string(env->items[i]->value));
    json_object_set_new(body, "env", map);
}

static int make_body(const struct workspace_command *command, json_t **ret, struct err *err)
{
    json_t *body = command->more ? json_deep_copy(command->more) : json_object();
    int r = add_words(body, command->words, err);

    *ret = body;
    if (command->workdir)
        json_object_set_new(body, "workingDir", json_string(command->workdir));
    if (command->name)
        json_object_set_new(body, "name", json_string(command->name));
    if (command->timeout_ns > 0)
        json_object_set_new(body, "timeoutSec", json_integer((command->timeout_ns + NS_PER_SEC - 1) / NS_PER_SEC));
    if (command->env->count > 0)
        add_env(body, command->env);
    if (command->input && command->input->len > 0) {
        autodone(buf) struct buf text = BUF_EMPTY;
        base64_add(&text, (const uint8_t *) command->input->data, command->input->len);
        json_object_set_new(body, "stdin", json_stringn(text.data, text.len));
        json_object_set_new(body, "stdinEncoding", json_string("base64"));
    }
    return r;
}

/* ---- what comes back ---- */

static int pass_on(const json_t *answer, const char *key, int fd, struct err *err)
{
    const json_t *text = json_object_get(answer, key);
    int r = json_is_string(text) ? interrupt_write(fd, json_string_value(text), json_string_length(text)) : 0;

    if (r < 0 && r != -ECANCELED && fd == STDOUT_FILENO)
        return output_refused(r, "passing on the command's output", err);
    return r < 0 && r != -ECANCELED ? err_errno(err, r, "passing on the command's output") : r;
}

static int wait_for_it(struct api_call *call, const char *id, json_t *body, struct err *err)
{
    autojson answer = NULL;
    int r = workspace_ask(call, "POST", body, &answer, err, "/api/v1/sandboxes/%s/exec", id);

    if (r < 0)
        return r;
    output_json(json_incref(answer));
    if (json_is_true(json_object_get(answer, "timedOut")))
        return EXIT_TIMED_OUT;
    return (int) (json_number(answer, "exitCode") & 0xFF);
}

/* What a program needs to know to draw is what our terminal is. */
static void add_term(json_t *body)
{
    json_t *env = json_object_get(body, "env");
    const char *term = getenv("TERM");

    if (!term || !*term || json_object_get(env, "TERM"))
        return;
    if (!env)
        json_object_set_new(body, "env", env = json_object());
    json_object_set_new(env, "TERM", json_string(term));
}

static int converse(struct api_call *call, const char *id, const struct workspace_command *command, json_t *body,
                    struct err *err)
{
    struct console console = { .sandbox = id, .first = body, .is_tty = command->is_tty, .takes_stdin = command->takes_stdin };
    const char *keys = command->detach_keys ? command->detach_keys : DETACH_KEYS_DEFAULT;
    int r = detach_keys_parse(&console.keys, keys, err);

    if (command->timeout_ns > 0) {
        json_object_set_new(body, "timeout", json_integer(command->timeout_ns));
        json_object_del(body, "timeoutSec");
    }
    if (command->is_tty)
        add_term(body);
    if (r == 0)
        r = console_run(call, &console, err);
    json_decref(body);
    return r;
}

static int start_it(struct api_call *call, const char *id, json_t *body, struct err *err)
{
    autojson answer = NULL;
    int r = workspace_ask(call, "POST", body, &answer, err, "/api/v1/sandboxes/%s/processes", id);

    if (r == 0)
        workspace_print(call, answer, json_text(answer, "id"));
    return r;
}

int command_in_workspace(struct api_call *call, const char *id, const struct workspace_command *command, struct err *err)
{
    json_t *body = NULL;
    int r = make_body(command, &body, err);

    if (r < 0) {
        json_decref(body);
        return r;
    }
    if (command->is_detached)
        return start_it(call, id, body, err);
    return call->options.is_json ? wait_for_it(call, id, body, err) : converse(call, id, command, body, err);
}

/* ---- logs ---- */

static void add_log(struct grid *grid, const json_t *item)
{
    grid_add(grid, json_text(item, "id"));
    grid_add_number(grid, json_number(item, "pid"));
    grid_add(grid, json_is_true(json_object_get(item, "isActive")) ? "yes" : "no");
    grid_add_size(grid, json_number(item, "sizeBytes"));
    grid_add(grid, json_text(item, "startedAt"));
}

static int list_logs(struct api_call *call, const char *id, struct err *err)
{
    static const char *const titles[] = { "ID", "PID", "RUNS", "SIZE", "STARTED", NULL };
    static const struct workspace_table table = { "logs", NULL, titles, add_log };
    autojson answer = NULL;
    int r = workspace_ask(call, "GET", NULL, &answer, err, "/api/v1/sandboxes/%s/logs", id);

    if (r == 0)
        workspace_table_print(&table, call, answer);
    return r;
}

static int on_event(const char *name, const char *data, size_t len, void *cookie, struct err *err)
{
    int r = 0;

    (void) cookie;
    if (strcmp(name, "message") == 0)
        r = interrupt_write(STDOUT_FILENO, data, len);
    else if (strcmp(name, "error") == 0)
        return err_set(err, ERR_UNAVAILABLE, -EPIPE, "%.*s", (int) len, data);
    return r < 0 ? output_refused(r, "passing on the log", err) : 0;
}

static int on_bytes(const void *bytes, size_t len, void *cookie, struct err *err)
{
    return event_stream_feed(cookie, bytes, len, err);
}

static int follow_log(struct api_call *call, const char *path, struct err *err)
{
    struct event_stream events;
    autodone(buf) struct buf refusal = BUF_EMPTY;
    struct client_web request = { .verb = "GET", .path = path, .on_bytes = on_bytes, .cookie = &events };
    int status = 0, r;

    event_stream_init(&events, on_event, NULL);
    r = client_web(call->client, &request, &status, &refusal, err);
    event_stream_done(&events);
    if (r == 0 && status != 200) {
        autojson told = json_loadb(refusal.data ? refusal.data : "", refusal.len, 0, NULL);
        r = workspace_refuse(status, told, err);
    }
    return r;
}

int logs_of_workspace(struct api_call *call, const char *id, const char *pid, int64_t tail, bool follows, struct err *err)
{
    autofree char *tail_text = xprintf("%" PRId64, tail);
    autodone(buf) struct buf path = BUF_EMPTY;
    autojson answer = NULL;
    int r;

    if (!pid)
        return follows ? err_invalid(err, "--follow needs --pid: which process") : list_logs(call, id, err);
    buf_addf(&path, "/api/v1/sandboxes/%s/processes/", id);
    for (const char *at = pid; *at; at++)
        buf_addf(&path, strchr("/?%#", *at) ? "%%%02X" : "%c", (unsigned char) *at);
    buf_addf(&path, "/logs%s", follows ? "/stream" : "");
    if (tail >= 0)
        workspace_add_query(&path, "tail", tail_text);
    else
        workspace_add_query(&path, "offset", "0");
    if (follows)
        return follow_log(call, path.data, err);
    r = workspace_ask(call, "GET", NULL, &answer, err, "%s", path.data);
    if (r < 0)
        return r;
    if (call->options.is_json)
        output_json(json_incref(answer));
    else
        r = pass_on(answer, "content", STDOUT_FILENO, err);
    return r;
}
