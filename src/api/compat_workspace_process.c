/* Background processes and their logs. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace.h"
#include "base/mem.h"

#define GRACE_MS_MAX 60000
#define TAIL_MAX 10000000

static int process_exit_code(const struct process_record *record)
{
    return record->end == CTL_END_SIGNALED ? 128 + record->status : record->status;
}

static json_t *make_process(const struct ws *ws, const struct process_info *info)
{
    const struct process_record *record = &info->record;
    json_t *object =
        json_pack("{s:s, s:I, s:I, s:s, s:b, s:b}", "id", record->name, "pid", (json_int_t) record->pid, "pgid",
                  (json_int_t) record->pid, "sandboxId", ws->shown, "running", info->is_running, "tty", record->is_tty);
    const char *command = *info->label ? info->label : record->command;

    json_object_set_new(object, "command", compat_text(command, strlen(command)));
    json_object_set_new(object, "commandLine", compat_text(record->command, strlen(record->command)));
    compat_set_text(object, "name", info->label);
    compat_set_text(object, "sessionId", info->session_id);
    compat_set_time(object, "startedAt", record->started_ns);
    compat_set_time(object, "stoppedAt", record->stopped_ns);
    if (record->has_exited) {
        json_object_set_new(object, "exitCode", json_integer(process_exit_code(record)));
        if (record->end == CTL_END_SIGNALED)
            json_object_set_new(object, "signal", json_integer(record->status));
        json_object_set_new(object, "usage",
                            json_pack("{s:I, s:I, s:I}", "userNs", (json_int_t) record->user_us * 1000, "systemNs",
                                      (json_int_t) record->system_us * 1000, "maxRssKiB", (json_int_t) record->max_rss_kib));
    }
    if (record->lost_bytes)
        json_object_set_new(object, "logLostBytes", json_integer((json_int_t) record->lost_bytes));
    return object;
}

int compat_process_start(struct ws *ws, struct err *err)
{
    autodone(compat_command) struct compat_command command = { 0 };
    autodone(process_info) struct process_info info = { 0 };
    autodone(sandbox_log) struct sandbox_log log = SANDBOX_LOG_NONE;
    int r = compat_command_read(ws->body, &command, err);

    if (r == 0)
        r = sandbox_process_start(ws->service, &ws->caller, ws->id, &command.command, &info, err);
    if (r < 0)
        return r;
    json_t *object = make_process(ws, &info);
    if (sandbox_log_open(ws->service, &ws->caller, ws->id, info.record.name, &log, NULL) == 0)
        compat_set_text(object, "logPath", log.path);
    return compat_answer(ws, 201, object);
}

int compat_process_list(struct ws *ws, struct err *err)
{
    autodone(process_info_list) struct process_info_list list = { 0 };
    bool only_running = false;
    int r = compat_query_bool(ws, "running", &only_running, err);

    if (r == 0)
        r = sandbox_process_list(ws->service, &ws->caller, ws->id, &list, err);
    if (r < 0)
        return r;
    json_t *array = json_array();
    for (size_t i = 0; i < list.count; i++) {
        if (!only_running || list.items[i].is_running)
            json_array_append_new(array, make_process(ws, &list.items[i]));
    }
    json_int_t total = (json_int_t) json_array_size(array);
    return compat_answer(
        ws, 200, json_pack("{s:o, s:I, s:I}", "processes", array, "total", total, "running", (json_int_t) list.running));
}

static int process_read_grace(const struct ws *ws, int64_t *ret, struct err *err)
{
    *ret = SANDBOX_GRACE_MS_DEFAULT;
    return compat_query_int(ws, "graceMs", 0, GRACE_MS_MAX, ret, err);
}

int compat_process_end(struct ws *ws, struct err *err)
{
    int64_t grace_ms;
    int r = process_read_grace(ws, &grace_ms, err);

    if (r == 0)
        r = sandbox_process_end(ws->service, &ws->caller, ws->id, web_capture(ws->web, "pid"), (uint32_t) grace_ms, err);
    return r < 0 ? r : compat_answer_empty(ws, 204);
}

/* Makes an array of texts from lines. */
static json_t *make_failure_lines(const struct buf *lines)
{
    json_t *array = json_array();

    for (const char *at = lines->data, *end; at && *at; at = end + 1) {
        end = strchr(at, '\n');
        json_array_append_new(array, compat_text(at, (size_t) (end - at)));
    }
    return array;
}

int compat_process_end_all(struct ws *ws, struct err *err)
{
    autodone(buf) struct buf failures = BUF_EMPTY;
    int64_t grace_ms;
    size_t count = 0;
    int r = process_read_grace(ws, &grace_ms, err);

    if (r == 0)
        r = sandbox_process_end_all(ws->service, &ws->caller, ws->id, (uint32_t) grace_ms, &count, &failures, err);
    if (r < 0)
        return r;
    json_t *answer = json_pack("{s:I}", "killed", (json_int_t) count);
    if (failures.len)
        json_object_set_new(answer, "errors", make_failure_lines(&failures));
    return compat_answer(ws, 200, answer);
}

struct totals {
    size_t tracked, running, workspaces;
    json_t *counts;
};

static void process_add_count(const char *id, size_t tracked, size_t running, void *cookie)
{
    struct totals *totals = cookie;

    totals->tracked += tracked;
    totals->running += running;
    totals->workspaces += tracked > 0;
    if (tracked > 0) {
        char uuid[UUID_TEXT_MAX];
        sandbox_id_to_uuid(id, uuid);
        json_object_set_new(totals->counts, uuid, json_integer((json_int_t) tracked));
    }
}

int compat_process_stats(struct ws *ws, struct err *err)
{
    struct totals totals = { .counts = json_object() };
    (void) err;

    sandbox_process_count(ws->service, &ws->caller, process_add_count, &totals);
    json_t *answer = json_pack("{s:I, s:I, s:I}", "totalTracked", (json_int_t) totals.tracked, "totalRunning",
                               (json_int_t) totals.running, "sandboxesWithProcesses", (json_int_t) totals.workspaces);
    if (totals.workspaces > 0)
        json_object_set(answer, "sandboxCounts", totals.counts);
    json_decref(totals.counts);
    return compat_answer(ws, 200, answer);
}

/* ---- logs ---- */

static json_t *make_process_log(const struct ws *ws, const struct sandbox_log *log)
{
    json_t *object =
        json_pack("{s:s, s:I, s:s, s:s, s:I, s:b, s:I}", "id", log->process.record.name, "pid",
                  (json_int_t) log->process.record.pid, "sandboxId", ws->shown, "path", log->path, "sizeBytes",
                  (json_int_t) log->log.end, "isActive", log->process.is_running, "firstByte", (json_int_t) log->log.first);

    compat_set_time(object, "startedAt", log->process.record.started_ns);
    return object;
}

int compat_log_list(struct ws *ws, struct err *err)
{
    autodone(process_info_list) struct process_info_list list = { 0 };
    int r = sandbox_process_list(ws->service, &ws->caller, ws->id, &list, err);

    if (r < 0)
        return r;
    json_t *array = json_array();
    for (size_t i = 0; i < list.count; i++) {
        autodone(sandbox_log) struct sandbox_log log = SANDBOX_LOG_NONE;

        if (sandbox_log_open(ws->service, &ws->caller, ws->id, list.items[i].record.name, &log, NULL) == 0)
            json_array_append_new(array, make_process_log(ws, &log));
    }
    json_int_t total = (json_int_t) json_array_size(array);
    return compat_answer(ws, 200, json_pack("{s:o, s:I, s:s}", "logs", array, "total", total, "sandboxId", ws->shown));
}

/* tail wins over offset. */
static int log_read_start(const struct ws *ws, struct sandbox_log *log, int64_t usual, uint64_t *ret, struct err *err)
{
    int64_t tail = -1, offset = usual;
    int r = compat_read_query(ws, err, { "tail", .number = &tail, .least = 0, .most = TAIL_MAX },
                              { "offset", .number = &offset, .least = 0, .most = INT64_MAX });

    if (r < 0)
        return r;
    *ret = (uint64_t) offset;
    return tail >= 0 ? sandbox_log_tail(log, (uint64_t) tail, ret, err) : 0;
}

int compat_log_read(struct ws *ws, struct err *err)
{
    autodone(sandbox_log) struct sandbox_log log = SANDBOX_LOG_NONE;
    autodone(buf) struct buf content = BUF_EMPTY;
    uint64_t from = 0;
    int r = sandbox_log_open(ws->service, &ws->caller, ws->id, web_capture(ws->web, "pid"), &log, err);

    if (r == 0)
        r = log_read_start(ws, &log, 0, &from, err);
    if (r < 0)
        return r;
    from = from < log.log.first ? log.log.first : from;
    r = sandbox_log_read(&log, from, SANDBOX_LOG_READ_MAX, &content, err);
    if (r < 0)
        return r;
    const uint64_t next = from + content.len;
    json_t *object = make_process_log(ws, &log);
    json_object_set_new(object, "content", compat_text(content.data ? content.data : "", content.len));
    json_object_set_new(object, "offset", json_integer((json_int_t) from));
    json_object_set_new(object, "nextOffset", json_integer((json_int_t) next));
    if (next < log.log.end)
        json_object_set_new(object, "truncated", json_true());
    return compat_answer(ws, 200, object);
}

/* Where to go on: behind what the client says it has; otherwise where it asks for; otherwise now. */
static int log_read_follow_start(const struct ws *ws, struct sandbox_log *log, uint64_t *ret, struct err *err)
{
    const char *last = web_header(ws->web, "last-event-id");

    if (!last)
        last = web_query(ws->web, "lastEventId");
    if (!last || !*last)
        return log_read_start(ws, log, (int64_t) log->log.end, ret, err);
    if (strlen(last) > 18 || strspn(last, "0123456789") != strlen(last))
        return err_reject(err, -EINVAL, last, "is no id of an event of this stream");
    *ret = strtoull(last, NULL, 10);
    return 0;
}

/* Cuts no characters, except those that never become complete. */
static ssize_t log_send_piece(const void *bytes, size_t len, uint64_t at, bool is_end, void *cookie)
{
    struct ws *ws = cookie;
    size_t whole = is_end ? len : compat_text_whole(bytes, len);
    char id[32];
    int r;

    if (whole == 0)
        return 0;
    json_t *text = compat_text(bytes, whole);
    snprintf(id, sizeof(id), "%" PRIu64, at + whole);
    r = web_event(ws->web, NULL, id, json_string_value(text), json_string_length(text));
    json_decref(text);
    return r < 0 ? r : (ssize_t) whole;
}

static int log_send_end(struct ws *ws, const struct sandbox_log *log, uint64_t at)
{
    const struct process_record *record = &log->process.record;
    json_t *end = json_object();
    char id[32];
    int r;

    if (record->has_exited)
        json_object_set_new(end, "exitCode", json_integer(process_exit_code(record)));
    char *text = json_dumps(end, JSON_COMPACT);
    json_decref(end);
    snprintf(id, sizeof(id), "%" PRIu64, at);
    r = web_event(ws->web, "end", id, text, strlen(text));
    free(text);
    return r;
}

int compat_log_follow(struct ws *ws, struct err *err)
{
    autodone(sandbox_log) struct sandbox_log log = SANDBOX_LOG_NONE;
    uint64_t at = 0;
    int r = sandbox_log_open(ws->service, &ws->caller, ws->id, web_capture(ws->web, "pid"), &log, err);

    if (r == 0)
        r = log_read_follow_start(ws, &log, &at, err);
    if (r < 0)
        return r;
    ws->web->response.content_type = "text/event-stream";
    r = web_begin(ws->web);
    if (r == 0)
        r = sandbox_log_follow(&log, &at, ws->caller.cancel_fd, log_send_piece, ws, err);
    if (r == 0)
        return log_send_end(ws, &log, at);
    if (r != -ECANCELED)
        web_event(ws->web, "error", NULL, err->text, strlen(err->text));
    return r;
}
