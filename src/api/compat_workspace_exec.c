/* Reads the keys that all commands have in common, and runs commands to their end. */
#include <errno.h>
#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace.h"
#include "base/buf.h"
#include "base/mem.h"

#define ARGUMENT_MAX ((size_t) 128 << 10) /* the kernel's limit */
#define ARGUMENTS_MAX 4096
#define VARIABLES_MAX 1000
#define INPUT_MAX ((size_t) 4 << 20)
#define LIMIT_MAX ((int64_t) 1 << 31)

void compat_command_done(struct compat_command *command)
{
    free(command->args);
    pair_list_done(&command->env);
    buf_done(&command->input);
    *command = (struct compat_command){ 0 };
}

int compat_command_read_limits(const json_t *object, struct execution_limits *ret, struct err *err)
{
    int r = compat_read(object, err, { "memoryLimitMB", .number = &ret->memory_mb, .least = 0, .most = LIMIT_MAX },
                        { "cpuTimeSec", .number = &ret->cpu_sec, .least = 0, .most = LIMIT_MAX },
                        { "maxProcesses", .number = &ret->processes, .least = 0, .most = LIMIT_MAX },
                        { "maxOpenFiles", .number = &ret->open_files, .least = 0, .most = LIMIT_MAX },
                        { "timeoutSec", .number = &ret->timeout_sec, .least = 0, .most = LIMIT_MAX });

    return r;
}

/* Arguments may be longer than other texts, because a script can be an argument. */
static int command_read_args(const json_t *object, struct compat_command *ret, struct err *err)
{
    const json_t *list = NULL;
    int r = compat_get_array(object, "args", ARGUMENTS_MAX, &list, err);

    if (r < 0 || !list)
        return r;
    ret->args = xalloc((json_array_size(list) + 1) * sizeof(*ret->args));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);

        if (!json_is_string(value) || json_string_length(value) > ARGUMENT_MAX)
            return err_invalid(err, "args[%zu] must be a text of at most %zu bytes", i, ARGUMENT_MAX);
        ret->args[i] = json_string_value(value);
    }
    return 0;
}

static int command_read_env(const json_t *object, struct compat_command *ret, struct err *err)
{
    const json_t *env = NULL;
    const char *key;
    json_t *value;
    int r = compat_get_pairs(object, "env", VARIABLES_MAX, &env, err);

    if (r < 0 || !env)
        return r;
    json_object_foreach((json_t *) (uintptr_t) env, key, value) pair_list_add(&ret->env, key, json_string_value(value));
    return 0;
}

/* "stdin" as text, or base64 with "stdinEncoding". */
static int command_read_input(const json_t *object, struct compat_command *ret, struct err *err)
{
    const char *text = NULL, *encoding = "utf8";
    struct base64_decode_ctx decoder;
    int r = compat_read(object, err, { "stdin", .text = &text, .text_max = INPUT_MAX }, { "stdinEncoding", .text = &encoding });

    if (r < 0 || !text)
        return r;
    size_t len = strlen(text), decoded = 0;
    if (strcmp(encoding, "utf8") == 0) {
        buf_add(&ret->input, text, len);
    } else if (strcmp(encoding, "base64") == 0) {
        buf_room(&ret->input, BASE64_DECODE_LENGTH(len) + 1);
        base64_decode_init(&decoder);
        if (!base64_decode_update(&decoder, &decoded, (uint8_t *) ret->input.data, len, text) || !base64_decode_final(&decoder))
            return err_invalid(err, "'stdin' is no base64");
        ret->input.len = decoded;
    } else {
        return err_reject(err, -EINVAL, encoding, "is no encoding; there are 'utf8' and 'base64'");
    }
    ret->command.input = ret->input.data;
    ret->command.input_len = ret->input.len;
    return 0;
}

static int command_read_network(const json_t *object, struct compat_command *ret, struct err *err)
{
    bool wanted = false;
    int r = compat_get_bool(object, "allowNetwork", &wanted, err);
    json_t *value = json_object_get(object, "allowNetwork");

    /* Some clients always send the key, so false means nothing in particular. */
    ret->command.network = value && !json_is_null(value) && wanted ? WISH_YES : WISH_NONE;
    return r;
}

int compat_command_read(const json_t *object, struct compat_command *ret, struct err *err)
{
    struct sandbox_command *command = &ret->command;
    int r;

    *ret = (struct compat_command){ .command = {
                                        .command = "", .working_dir = "", .profile = "", .label = "", .session_id = "" } };
    r = compat_get_text(object, "command", ARGUMENT_MAX, &command->command, err);
    if (r == 0)
        r = command_read_args(object, ret, err);
    if (r == 0)
        r = compat_read(object, err, { "workingDir", .text = &command->working_dir },
                        { "isolationLevel", .text = &command->profile },
                        { "sessionId", .text = &command->session_id, .text_max = 256 },
                        { "name", .text = &command->label, .text_max = 256 });
    if (r == 0)
        r = command_read_network(object, ret, err);
    if (r == 0)
        r = compat_command_read_limits(object, &command->limits, err);
    if (r == 0)
        r = command_read_env(object, ret, err);
    if (r == 0)
        r = command_read_input(object, ret, err);
    if (r == 0 && !*command->command)
        r = err_invalid(err, "'command' is required");
    command->args = ret->args;
    command->env = &ret->env;
    return r;
}

/* ---- exec ---- */

struct collected {
    struct buf streams[2];
};

static int exec_collect_output(enum ctl_stream stream, const void *bytes, size_t len, void *cookie)
{
    struct collected *collected = cookie;

    buf_add(&collected->streams[stream == CTL_STREAM_OUT ? 0 : 1], bytes, len);
    return 0;
}

static void exec_set_output(json_t *answer, const char *key, const struct buf *bytes)
{
    json_object_set_new(answer, key, compat_text(bytes->data ? bytes->data : "", bytes->len));
}

static json_t *make_exec_answer(const struct collected *collected, const struct sandbox_exec_result *result)
{
    json_t *answer = json_pack("{s:i, s:I}", "exitCode", result->exit_code, "durationNs", (json_int_t) result->duration_ns);

    exec_set_output(answer, "stdout", &collected->streams[0]);
    exec_set_output(answer, "stderr", &collected->streams[1]);
    if (result->pid)
        json_object_set_new(answer, "pid", json_integer(result->pid));
    if (result->timed_out)
        json_object_set_new(answer, "timedOut", json_true());
    if (result->signal)
        json_object_set_new(answer, "signal", json_integer(result->signal));
    if (result->out_cut)
        json_object_set_new(answer, "stdoutTruncated", json_true());
    if (result->err_cut)
        json_object_set_new(answer, "stderrTruncated", json_true());
    if (result->ran_out_of_memory)
        json_object_set_new(answer, "outOfMemory", json_true());
    return answer;
}

int compat_exec(struct ws *ws, struct err *err)
{
    autodone(compat_command) struct compat_command command = { 0 };
    struct collected collected = { 0 };
    struct sandbox_exec_result result;
    int r = compat_command_read(ws->body, &command, err);

    if (r == 0)
        r = sandbox_exec(ws->service, &ws->caller, ws->id, &command.command, exec_collect_output, &collected, &result, err);
    if (r == 0)
        r = compat_answer(ws, 200, make_exec_answer(&collected, &result));
    buf_done(&collected.streams[0]);
    buf_done(&collected.streams[1]);
    return r;
}
