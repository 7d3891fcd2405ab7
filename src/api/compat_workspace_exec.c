/* Commands that are waited for. */
#include <string.h>

#include "api/compat_workspace_command.h"
#include "api/compat_workspace_handlers.h"
#include "api/compat_workspace_json.h"
#include "base/buf.h"

struct collected {
    struct buf streams[2];
};

static int collect(enum ctl_stream stream, const void *bytes, size_t len, void *cookie)
{
    struct collected *collected = cookie;

    buf_add(&collected->streams[stream == CTL_STREAM_OUT ? 0 : 1], bytes, len);
    return 0;
}

static void set_output(json_t *answer, const char *key, const struct buf *bytes)
{
    json_object_set_new(answer, key, compat_text(bytes->data ? bytes->data : "", bytes->len));
}

static json_t *make_answer(const struct collected *collected, const struct sandbox_exec_result *result)
{
    json_t *answer = json_pack("{s:i, s:I}", "exitCode", result->exit_code, "durationNs", (json_int_t) result->duration_ns);

    set_output(answer, "stdout", &collected->streams[0]);
    set_output(answer, "stderr", &collected->streams[1]);
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
        r = sandbox_exec(ws->service, &ws->caller, ws->id, &command.command, collect, &collected, &result, err);
    if (r == 0)
        r = compat_answer(ws, 200, make_answer(&collected, &result));
    buf_done(&collected.streams[0]);
    buf_done(&collected.streams[1]);
    return r;
}
