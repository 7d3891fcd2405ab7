#include "cli/console.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/output_queue.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "client/channel.h"

#define READ_BYTES ((size_t) 32 << 10)   /* a size of message that the server accepts */
#define QUEUE_BYTES ((size_t) 128 << 10) /* bytes queued for the command, above which we stop reading */
#define LOOK_AGAIN_MS                                                                                                          \
    300 /* how often to check whether we are in the foreground, and to resend the end of input to a terminal */
#define CONTROL_D "\4"

struct talk {
    const struct console *console;
    struct detach_keys keys;
    struct channel *channel; /* owned */
    struct terminal terminal;
    struct output_queue out;
    bool has_started, has_ended, is_detached, is_over;
    bool is_refused; /* the server started nothing */
    bool has_input;  /* our input has not ended */
    bool lacks_end;  /* the command's terminal has not yet received the end of our input */
    int exit_code;
    bool timed_out;
    char process[64];
    struct err complaint; /* the server's last error, unless it is an answer */
    int failed;           /* set if the server violates the protocol */
    struct err *err;
};

/* ---- sending ---- */

static void console_send(struct talk *talk, json_t *value)
{
    autofree char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

    json_decref(value);
    if (text)
        channel_send(talk->channel, false, text, strlen(text));
}

static void console_send_size(struct talk *talk)
{
    uint16_t rows, cols;

    terminal_get_size(&rows, &cols);
    console_send(talk, json_pack("{s:s, s:i, s:i}", "type", "resize", "rows", rows, "cols", cols));
}

static int console_add_words(json_t *first, char *const *words, struct err *err)
{
    bool is_line = words[0] && !words[1];
    json_t *args = json_array();
    int failed = 0;

    json_object_set_new(first, "command", is_line ? json_string("/bin/sh") : json_string(words[0]));
    if (is_line)
        json_array_append_new(args, json_string("-c"));
    for (size_t i = is_line ? 0 : 1; words[i]; i++)
        failed |= json_array_append_new(args, json_string(words[i]));
    json_object_set_new(first, "args", args);
    return failed || !json_object_get(first, "command") ? err_invalid(err, "the command is not UTF-8") : 0;
}

/* The command draws on our terminal, so it gets our TERM. */
static void console_add_env(json_t *first, const struct console *console)
{
    const char *term = getenv("TERM");
    json_t *env = json_object();

    for (size_t i = 0; console->env && i < console->env->count; i++)
        json_object_set_new(env, console->env->items[i]->key, json_string(console->env->items[i]->value));
    if (console->is_tty && term && *term && !json_object_get(env, "TERM"))
        json_object_set_new(env, "TERM", json_string(term));
    json_object_set_new(first, "env", env);
}

/* Sends the command. When we attach, the path has already named the process. */
static int console_send_first(struct talk *talk)
{
    const struct console *console = talk->console;
    json_t *first;
    uint16_t rows, cols;
    int r;

    if (console->process)
        return 0;
    first = console->limits ? json_deep_copy(console->limits) : json_object();
    r = console_add_words(first, console->words, talk->err);
    console_add_env(first, console);
    if (console->workdir)
        json_object_set_new(first, "workingDir", json_string(console->workdir));
    if (console->timeout_ns > 0)
        json_object_set_new(first, "timeout", json_integer(console->timeout_ns));
    json_object_set_new(first, "binary", json_true());
    json_object_set_new(first, "tty", json_boolean(console->is_tty));
    if (console->is_tty) {
        terminal_get_size(&rows, &cols);
        json_object_set_new(first, "rows", json_integer(rows));
        json_object_set_new(first, "cols", json_integer(cols));
    } else {
        json_object_set_new(first, "interactive", json_boolean(console->takes_stdin));
    }
    if (r < 0)
        json_decref(first);
    else
        console_send(talk, first);
    return r;
}

/* ---- receiving ---- */

static const char *console_text(const json_t *message, const char *key)
{
    const char *text = json_string_value(json_object_get(message, key));

    return text ? text : "";
}

/* Ends the conversation with a server that violates the protocol. It may be any program that listens there. */
static int console_break_off(struct talk *talk, const char *what)
{
    if (talk->failed == 0)
        talk->failed = err_set(talk->err, ERR_UNAVAILABLE, -EPROTO, "the server breaks the protocol: it sent %s", what);
    return -EPROTO;
}

static int console_take_bytes(struct talk *talk, const char *bytes, size_t len)
{
    int fd = STDOUT_FILENO;

    if (!talk->has_started || talk->has_ended)
        return console_break_off(talk, "output of a command that does not run");
    if (!talk->console->is_tty) {
        if (len == 0 || (*bytes != 1 && *bytes != 2))
            return console_break_off(talk, "output of neither stream");
        fd = *bytes == 1 ? STDOUT_FILENO : STDERR_FILENO;
        bytes++;
        len--;
    }
    output_queue_add(&talk->out, fd, bytes, len);
    channel_hold(talk->channel, true);
    return 0;
}

static int console_take_start(struct talk *talk, const json_t *message)
{
    if (talk->has_started)
        return console_break_off(talk, "a second beginning");
    talk->has_started = true;
    snprintf(talk->process, sizeof(talk->process), "%s", console_text(message, "id"));
    /* The window may have changed its size since we detached. */
    if (talk->console->process)
        console_send_size(talk);
    return 0;
}

static int console_take_end(struct talk *talk, const json_t *message)
{
    json_t *code = json_object_get(message, "code");

    if (!talk->has_started || talk->has_ended || !json_is_integer(code) || json_integer_value(code) < -1 ||
        json_integer_value(code) > 255)
        return console_break_off(talk, "an end that is none");
    talk->has_ended = true;
    talk->exit_code = (int) json_integer_value(code);
    talk->timed_out = json_is_true(json_object_get(message, "timedOut"));
    return 0;
}

static int console_take_error(struct talk *talk, const json_t *message)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    const char *data = console_text(message, "data");
    long long code = json_integer_value(json_object_get(message, "code"));

    buf_add_escaped(&text, data, strlen(data));
    err_set(&talk->complaint, ERR_UNAVAILABLE, -EREMOTEIO, "%s",
            text.len ? text.data : "the server refuses, and gives no reason");
    talk->is_refused = !talk->has_started;
    if (talk->is_refused && (code == 126 || code == 127))
        talk->exit_code = (int) code;
    return 0;
}

/* Ignores types of messages that newer servers may send. */
static int console_take_text(struct talk *talk, const char *bytes, size_t len)
{
    json_t *message = json_loadb(bytes, len, 0, NULL);
    const char *type = console_text(message, "type");
    int r = 0;

    if (!json_is_object(message))
        r = console_break_off(talk, "a text that is not a message");
    else if (strcmp(type, "started") == 0)
        r = console_take_start(talk, message);
    else if (strcmp(type, "exit") == 0)
        r = console_take_end(talk, message);
    else if (strcmp(type, "error") == 0)
        r = console_take_error(talk, message);
    else if (strcmp(type, "stdout") == 0 || strcmp(type, "stderr") == 0)
        r = console_break_off(talk, "text where bytes were requested");
    json_decref(message);
    return r;
}

static int console_on_message(bool is_binary, const void *bytes, size_t len, void *cookie)
{
    struct talk *talk = cookie;

    if (talk->failed)
        return talk->failed;
    return is_binary ? console_take_bytes(talk, bytes, len) : console_take_text(talk, bytes, len);
}

/* ---- our input ---- */

static void console_end_input(struct talk *talk)
{
    talk->has_input = false;
    if (talk->console->is_tty)
        talk->lacks_end = true;
    else
        console_send(talk, json_pack("{s:s}", "type", "eof"));
}

/* Detach keys work only if our input is a terminal. */
static void console_read_input(struct talk *talk)
{
    autodone(buf) struct buf typed = BUF_EMPTY;
    char bytes[READ_BYTES];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        console_end_input(talk);
        return;
    }
    if (talk->terminal.is_raw)
        talk->is_detached = detach_keys_filter(&talk->keys, bytes, (size_t) n, &typed);
    else
        buf_add(&typed, bytes, (size_t) n);
    if (typed.len > 0)
        channel_send(talk->channel, true, typed.data, typed.len);
    if (talk->is_detached)
        console_send(talk, json_pack("{s:s}", "type", "detach"));
}

/* The kernel stops a background job that reads its terminal, but not one that only waits. */
static bool console_may_read(void)
{
    return !isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* ---- signals ---- */

/* After SIGCONT the terminal has the mode that the shell chose while we were stopped. */
static void console_on_window(struct talk *talk)
{
    if (interrupt_window_signal() == SIGCONT && talk->terminal.is_raw)
        terminal_make_raw_again(&talk->terminal);
    if (talk->console->is_tty && talk->has_started && !talk->is_over)
        console_send_size(talk);
}

/* ---- the conversation ---- */

enum { AT_CHANNEL, AT_INTERRUPT, AT_WINDOW, AT_STDIN, AT_OUT, AT_COUNT };

/* Does not read from the server while our own reader is slow. So we notice a dead server late, but lose none of its output. */
static void console_choose(struct talk *talk, struct pollfd fds[AT_COUNT], int *ret_timeout)
{
    int out_fd = output_queue_fd(&talk->out);
    short events = 0;
    bool wants_input = talk->has_input && talk->has_started && !talk->is_over && channel_queued(talk->channel) < QUEUE_BYTES;
    bool reads = wants_input && console_may_read();

    if (!talk->is_over)
        events = channel_events(talk->channel);
    *ret_timeout = talk->is_over ? -1 : channel_timeout_ms(talk->channel);
    if (((wants_input && !reads) || talk->lacks_end) && !talk->is_over && *ret_timeout > LOOK_AGAIN_MS)
        *ret_timeout = LOOK_AGAIN_MS;
    fds[AT_CHANNEL] =
        (struct pollfd){ .fd = talk->is_over || (out_fd >= 0 && !events) ? -1 : channel_fd(talk->channel), .events = events };
    fds[AT_INTERRUPT] = (struct pollfd){ .fd = interrupt_fd(), .events = POLLIN };
    fds[AT_WINDOW] = (struct pollfd){ .fd = interrupt_window_fd(), .events = POLLIN };
    fds[AT_STDIN] = (struct pollfd){ .fd = reads ? STDIN_FILENO : -1, .events = POLLIN };
    fds[AT_OUT] = (struct pollfd){ .fd = out_fd, .events = POLLOUT };
}

static int console_step(struct talk *talk)
{
    struct pollfd fds[AT_COUNT];
    int timeout, n, out_fd, r;

    console_choose(talk, fds, &timeout);
    n = poll(fds, AT_COUNT, timeout);
    if (n < 0)
        return errno == EINTR ? 0 : err_errno(talk->err, -errno, "waiting for the command");
    if (fds[AT_INTERRUPT].revents)
        return err_set(talk->err, ERR_CANCELLED, -ECANCELED, "interrupted");
    if (fds[AT_WINDOW].revents)
        console_on_window(talk);
    /* A terminal's end of input is a key. A program that does not read yet loses it, so we send it again and again. */
    if (n == 0 && talk->lacks_end && talk->has_started && !talk->is_over)
        channel_send(talk->channel, true, CONTROL_D, 1);
    if (fds[AT_STDIN].revents)
        console_read_input(talk);
    out_fd = output_queue_fd(&talk->out);
    r = fds[AT_OUT].revents ? output_queue_write(&talk->out) : 0;
    if (r < 0)
        return out_fd == STDOUT_FILENO ? output_refused(r, "passing on the command's output", talk->err)
                                       : err_errno(talk->err, r, "passing on the command's output");
    if (!talk->is_over && output_queue_fd(&talk->out) < 0)
        channel_hold(talk->channel, false);
    if (!talk->is_over && channel_work(talk->channel, fds[AT_CHANNEL].revents) < 0)
        talk->is_over = true;
    return talk->failed;
}

static int console_judge(struct talk *talk)
{
    if (talk->is_detached)
        return 0;
    if (talk->timed_out) {
        err_set(talk->err, ERR_DEADLINE_EXCEEDED, -ETIME, "command timed out");
        return EXIT_TIMED_OUT;
    }
    if (talk->has_ended && talk->exit_code >= 0)
        return talk->exit_code;
    if (talk->complaint.code == ERR_OK)
        return channel_tell_end(talk->channel, talk->err);
    *talk->err = talk->complaint;
    return talk->exit_code > 0 ? talk->exit_code : -EREMOTEIO;
}

static int console_talk(struct talk *talk)
{
    int r = console_send_first(talk);

    while (r == 0 && !(talk->is_over || talk->has_ended || talk->is_detached || talk->is_refused))
        r = console_step(talk);
    /* Write the command's last output, which may still be queued. */
    while (r == 0 && !talk->is_detached && output_queue_fd(&talk->out) >= 0)
        r = console_step(talk);
    if (r == 0 && !talk->is_over && !talk->is_refused)
        channel_finish(talk->channel);
    return r;
}

/* Sets `err` to the refusal of a server that did not open the channel. */
static int console_refuse(int status, const char *answer, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    json_error_t ignored;
    json_t *told = json_loads(answer, 0, &ignored);
    const char *error = json_string_value(json_object_get(told, "error"));

    buf_add_escaped(&text, error ? error : "", error ? strlen(error) : 0);
    json_decref(told);
    if (!error)
        return err_set(err, ERR_UNAVAILABLE, -EPROTO,
                       "the program that answers there is not an agentfense server (HTTP status %d)", status);
    return err_set(err, status == 404 ? ERR_NOT_FOUND : ERR_FAILED_PRECONDITION, status == 404 ? -ENOENT : -EREMOTEIO, "%s",
                   text.data);
}

static int console_open(struct api_call *call, struct talk *talk)
{
    const struct console *console = talk->console;
    autodone(buf) struct buf path = BUF_EMPTY, answer = BUF_EMPTY;
    int status = 0, r;

    buf_addf(&path, "/api/v1/sandboxes/%s/exec-interactive", console->sandbox);
    if (console->process) {
        buf_add_str(&path, "?binary=true&attach=");
        for (const char *at = console->process; *at; at++)
            buf_addf(&path, isalnum((unsigned char) *at) || *at == '_' ? "%c" : "%%%02X", (unsigned char) *at);
    }
    r = channel_open(call->client, path.data, console_on_message, talk, &talk->channel, &status, &answer, talk->err);
    return r < 0 || status == 101 ? r : console_refuse(status, answer.data ? answer.data : "", talk->err);
}

int console_run(struct api_call *call, const struct console *console, struct err *err)
{
    struct talk talk = { .console = console, .has_input = console->takes_stdin, .err = err };
    int r = detach_keys_parse(&talk.keys, console->detach_keys ? console->detach_keys : DETACH_KEYS_DEFAULT, err), code;

    if (r == 0)
        r = console_open(call, &talk);
    if (r == 0 && console->is_tty && console->takes_stdin && isatty(STDIN_FILENO)) {
        r = terminal_make_raw(&talk.terminal);
        if (r < 0)
            err_errno(err, r, "taking the terminal");
    }
    bool was_raw = talk.terminal.is_raw;
    if (r == 0)
        r = console_talk(&talk);
    terminal_restore(&talk.terminal);
    code = r == 0 ? console_judge(&talk) : r;
    /* The command may have left the cursor inside a line. */
    if (was_raw && (code < 0 || talk.is_detached))
        fputc('\n', stderr);
    if (code >= 0 && talk.is_detached)
        fprintf(stderr, "detached; 'agentfense attach %s %s' comes back\n", console->sandbox, talk.process);
    if (code > 0 && err->code != ERR_OK)
        output_error(call->verb->name, err);
    channel_close(talk.channel);
    output_queue_done(&talk.out);
    return code;
}
