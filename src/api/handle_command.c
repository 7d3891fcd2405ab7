#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/request.h"
#include "base/buf.h"
#include "base/mem.h"
#include "service/commands.h"

/* The maximum of output in one message of a stream, so that every client accepts it. */
#define CHUNK_BYTES 32768
/* The maximum of both streams in an answer, which must fit into the 4 MiB that gRPC clients accept by default, together with the paths of
 * conflicts (CTL_SYNCED_PATHS_MAX). Invalid UTF-8 grows threefold. */
#define STREAMS_BYTES_MAX (((size_t) 4 << 20) - ((size_t) 64 << 10))

/* The output that a call collects. */
struct collected {
    struct buf out, err;
};

static int exec_take_command(const void *message, struct command_request *ret, struct pair_list *env, struct err *err)
{
    const Sandbox__V1__ExecRequest *in = message;
    int r = request_need(in->sandbox_id, "sandbox_id", err);

    if (r == 0)
        r = request_need(in->command, "command", err);
    if (r == 0)
        r = take_duration(in->timeout, "timeout", &ret->timeout_ns, err);
    if (r == 0 && in->max_output_bytes < 0)
        r = err_invalid(err, "max_output_bytes must not be negative");
    if (r == 0 && *in->stdin && in->stdin_data.len > 0)
        r = err_invalid(err, "stdin and stdin_data are both given");
    if (r < 0)
        return r;
    for (size_t i = 0; i < in->n_env; i++)
        pair_list_add(env, in->env[i]->key, in->env[i]->value);
    ret->sandbox_id = in->sandbox_id;
    ret->command = in->command;
    ret->env = env;
    ret->workdir = in->workdir;
    ret->input = in->stdin_data.len > 0 ? (const void *) in->stdin_data.data : in->stdin;
    ret->input_len = in->stdin_data.len > 0 ? in->stdin_data.len : strlen(in->stdin);
    ret->output_limit = (uint64_t) in->max_output_bytes;
    return 0;
}

static int exec_take_session_command(const void *message, struct command_request *ret, struct pair_list *env, struct err *err)
{
    const Sandbox__V1__SessionExecRequest *in = message;
    int r = request_need(in->session_id, "session_id", err);

    (void) env;
    if (r == 0)
        r = request_need(in->command, "command", err);
    if (r == 0)
        r = take_duration(in->timeout, "timeout", &ret->timeout_ns, err);
    if (r == 0 && in->max_output_bytes < 0)
        r = err_invalid(err, "max_output_bytes must not be negative");
    if (r < 0)
        return r;
    ret->session_id = in->session_id;
    ret->command = in->command;
    ret->workdir = "";
    ret->output_limit = (uint64_t) in->max_output_bytes;
    return 0;
}

typedef int (*take_fn)(const void *message, struct command_request *ret, struct pair_list *env, struct err *err);

/* ---- to its end ---- */

static int exec_collect_output(enum ctl_stream stream, const void *bytes, size_t len, void *cookie)
{
    struct collected *collected = cookie;

    buf_add(stream == CTL_STREAM_OUT ? &collected->out : &collected->err, bytes, len);
    return 0;
}

static char *make_output_text(const struct buf *stream, size_t max, protobuf_c_boolean *is_cut)
{
    return make_text_within(stream->data ? stream->data : "", stream->len, max, is_cut);
}

static size_t smaller_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Each stream gets half of the space and what the other one leaves of its half. */
static void exec_set_texts(Sandbox__V1__ExecResult *out, const struct collected *collected)
{
    size_t half = STREAMS_BYTES_MAX / 2, out_len, err_len;

    out->stdout = make_output_text(&collected->out, STREAMS_BYTES_MAX, &out->stdout_truncated);
    out->stderr = make_output_text(&collected->err, STREAMS_BYTES_MAX, &out->stderr_truncated);
    out_len = strlen(out->stdout);
    err_len = strlen(out->stderr);
    if (out_len + err_len <= STREAMS_BYTES_MAX)
        return;
    free(out->stdout);
    free(out->stderr);
    out->stdout = make_output_text(&collected->out, STREAMS_BYTES_MAX - smaller_size(err_len, half), &out->stdout_truncated);
    out->stderr = make_output_text(&collected->err, STREAMS_BYTES_MAX - smaller_size(out_len, half), &out->stderr_truncated);
}

static Sandbox__V1__ExecResult *make_exec_result(const struct collected *collected, const struct command_result *result)
{
    Sandbox__V1__ExecResult *out = message_new(&sandbox__v1__exec_result__descriptor);

    out->exit_code = result->exit_code;
    out->duration = make_duration(result->duration_ns);
    out->stdout_truncated = result->out_cut;
    out->stderr_truncated = result->err_cut;
    exec_set_texts(out, collected);
    out->exec_id = xdup(result->name);
    out->codebase_version = (int64_t) result->version;
    out->sync_conflicts = make_texts(result->conflicts, result->conflict_count);
    out->n_sync_conflicts = result->conflict_count;
    return out;
}

static int exec_answer(const struct request *request, const void *message, take_fn take, ProtobufCMessage **ret,
                       struct err *err)
{
    autodone(pair_list) struct pair_list env = PAIR_LIST_EMPTY;
    autodone(command_result) struct command_result result = { .exit_code = 0 };
    struct collected collected = { BUF_EMPTY, BUF_EMPTY };
    struct command_request wanted = { 0 };
    int r = take(message, &wanted, &env, err);

    if (r == 0)
        r = command_run(request->service, &request->caller, &wanted, exec_collect_output, &collected, &result, err);
    if (r >= 0)
        *ret = &make_exec_result(&collected, &result)->base;
    buf_done(&collected.out);
    buf_done(&collected.err);
    return r;
}

int handle_exec(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    return exec_answer(request, message, exec_take_command, ret, err);
}

int handle_session_exec(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    return exec_answer(request, message, exec_take_session_command, ret, err);
}

/* ---- as it comes ---- */

static int exec_send_output(enum ctl_stream stream, const void *bytes, size_t len, void *cookie)
{
    Sandbox__V1__ExecOutput out = SANDBOX__V1__EXEC_OUTPUT__INIT;
    int r = 0;

    out.type = stream == CTL_STREAM_OUT ? SANDBOX__V1__EXEC_OUTPUT__OUTPUT_TYPE__OUTPUT_TYPE_STDOUT
                                        : SANDBOX__V1__EXEC_OUTPUT__OUTPUT_TYPE__OUTPUT_TYPE_STDERR;
    for (size_t at = 0; r == 0 && at < len; at += out.data.len) {
        out.data.len = len - at < CHUNK_BYTES ? len - at : CHUNK_BYTES;
        out.data.data = (uint8_t *) bytes + at;
        r = call_send(cookie, &out.base);
    }
    return r;
}

/* The messages of the stream have no field for the exit code, so it is sent as a trailer. */
static void exec_set_end(struct call *call, const struct command_result *result)
{
    char number[32];

    snprintf(number, sizeof(number), "%d", result->exit_code);
    call_set_trailer(call, "agentfense-exit-code", number);
    snprintf(number, sizeof(number), "%lld", (long long) (result->duration_ns / 1000));
    call_set_trailer(call, "agentfense-duration-us", number);
    call_set_trailer(call, "agentfense-exec-id", result->name);
}

static int exec_stream(const struct request *request, const void *message, take_fn take, struct err *err)
{
    autodone(pair_list) struct pair_list env = PAIR_LIST_EMPTY;
    autodone(command_result) struct command_result result = { .exit_code = 0 };
    struct command_request wanted = { .streams = true };
    int r = take(message, &wanted, &env, err);

    if (r == 0)
        r = command_run(request->service, &request->caller, &wanted, exec_send_output, request->call, &result, err);
    if (r == 0)
        exec_set_end(request->call, &result);
    return r;
}

int handle_exec_stream(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    (void) ret;
    return exec_stream(request, message, exec_take_command, err);
}

int handle_session_exec_stream(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    (void) ret;
    return exec_stream(request, message, exec_take_session_command, err);
}
