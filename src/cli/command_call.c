#include "cli/command_call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/verb.h"
#include <sandbox/v1/sandbox.pb-c.h>

#define EXIT_CODE_TRAILER "agentfense-exit-code"

/* ---- requests ---- */

static void add_quoted(struct buf *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

    if (*word && strspn(word, plain) == strlen(word)) {
        buf_add_str(out, word);
        return;
    }
    buf_add_char(out, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            buf_add_str(out, "'\\''");
        else
            buf_add_char(out, *word);
    }
    buf_add_char(out, '\'');
}

char *command_line(char *const *words)
{
    struct buf line = BUF_EMPTY;

    if (words[0] && !words[1])
        return xdup(words[0]);
    for (size_t i = 0; words[i]; i++) {
        if (i > 0)
            buf_add_char(&line, ' ');
        add_quoted(&line, words[i]);
    }
    return buf_dup_take(&line);
}

/* ---- answers ---- */

struct ending {
    int exit_code;
    bool is_known;
};

static int on_output(const ProtobufCMessage *answer, void *cookie, struct err *err)
{
    const Sandbox__V1__ExecOutput *output = (const void *) answer;
    bool is_error = output->type == SANDBOX__V1__EXEC_OUTPUT__OUTPUT_TYPE__OUTPUT_TYPE_STDERR;
    int r = interrupt_write(is_error ? STDERR_FILENO : STDOUT_FILENO, output->data.data, output->data.len);

    (void) cookie;
    if (r == -ECANCELED)
        return err_set(err, ERR_CANCELLED, r, "interrupted");
    if (r < 0 && !is_error)
        return output_refused(r, "passing on the command's output", err);
    return r < 0 ? err_errno(err, r, "passing on the command's output") : 0;
}

static void on_trailer(const char *name, const char *value, void *cookie)
{
    struct ending *ending = cookie;

    if (strcmp(name, EXIT_CODE_TRAILER) == 0) {
        ending->exit_code = atoi(value);
        ending->is_known = true;
    }
}

static int stream_it(struct api_call *call, const char *method, const ProtobufCMessage *request, int *ret, struct err *err)
{
    struct ending ending = { 0 };
    struct client_call wanted = {
        .method = method, .request = request, .on_answer = on_output, .on_trailer = on_trailer, .cookie = &ending
    };
    int r = client_call(call->client, &wanted, err);

    if (r == 0 && !ending.is_known)
        r = err_set(err, ERR_INTERNAL, -EPROTO, "the server did not report how the command ended");
    if (r == 0)
        *ret = ending.exit_code;
    return r;
}

static int ask_for_it(struct api_call *call, const char *method, const ProtobufCMessage *request, int *ret, struct err *err)
{
    automessage answer = NULL;
    int r = client_ask(call->client, method, request, &answer, err);

    if (r < 0)
        return r;
    api_print_json(answer);
    *ret = ((const Sandbox__V1__ExecResult *) (void *) answer)->exit_code;
    return 0;
}

/* The streamed output was already printed. With --json the API returns no output after a timeout. */
static void tell_timeout(const struct api_call *call, const Google__Protobuf__Duration *timeout, struct err *err)
{
    if (call->options.is_json)
        output_json(json_pack("{s:i, s:b}", "exitCode", EXIT_TIMED_OUT, "timedOut", true));
    if (timeout)
        err_set(err, err->code, -ETIME, "command timed out after %lld.%03d seconds (--timeout)", (long long) timeout->seconds,
                timeout->nanos / 1000000);
    else
        err_set(err, err->code, -ETIME,
                "command timed out after the server's default (30s, unless it is configured); -t sets another");
    output_error(call->verb->name, err);
}

int command_call(struct api_call *call, const char *unary, const char *stream, const ProtobufCMessage *request,
                 const Google__Protobuf__Duration *timeout, struct err *err)
{
    int code = 0, r;

    r = call->options.is_json ? ask_for_it(call, unary, request, &code, err) : stream_it(call, stream, request, &code, err);
    if (r < 0 && err->code == ERR_DEADLINE_EXCEEDED) {
        tell_timeout(call, timeout, err);
        return EXIT_TIMED_OUT;
    }
    return r < 0 ? r : code & 0xFF;
}
