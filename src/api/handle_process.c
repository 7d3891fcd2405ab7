/* Background processes and their logs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"
#include "api/process_spec.h"
#include "api/request.h"
#include "base/clock.h"
#include "base/mem.h"
#include "service/sandbox_run.h"
#include <sandbox/v1/process.pb-c.h>

#define GRACE_NS_MAX (60 * CLOCK_NS_PER_SEC)
#define LOG_BYTES_MAX ((int64_t) 1 << 20)

int handle_start_process(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__StartProcessRequest *in = message;
    autodone(process_spec) struct process_spec spec = { 0 };
    autodone(process_info) struct process_info info = { 0 };
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = process_spec_take(in->spec, &spec, err);
    if (r == 0)
        r = sandbox_process_start(request->service, &request->caller, id, &spec.command, &info, err);
    if (r == 0)
        *ret = &make_process(id, &info)->base;
    return r;
}

/* ---- finding ---- */

static bool process_is_wanted(const Sandbox__V1__ListProcessesRequest *in, const struct process_info *info)
{
    return (!in->running || info->is_running) && (!*in->tag || strcmp(in->tag, info->session_id) == 0);
}

/* A token is the id of the last process of its page. */
static int process_find_start(const struct process_info_list *list, const char *token, size_t *ret, struct err *err)
{
    *ret = 0;
    if (!*token)
        return 0;
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].record.name, token) == 0) {
            *ret = i + 1;
            return 0;
        }
    }
    return err_invalid(err, "page_token is not of this list");
}

int handle_list_processes(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ListProcessesRequest *in = message;
    autodone(process_info_list) struct process_info_list list = { 0 };
    size_t max = take_bounded_page_size(in->page_size), at;
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = sandbox_process_list(request->service, &request->caller, id, &list, err);
    if (r == 0)
        r = process_find_start(&list, in->page_token, &at, err);
    if (r < 0)
        return r;
    Sandbox__V1__ListProcessesResponse *out = message_new(&sandbox__v1__list_processes_response__descriptor);
    out->processes = xalloc(max * sizeof(*out->processes));
    for (; at < list.count; at++) {
        if (!process_is_wanted(in, &list.items[at]))
            continue;
        if (out->n_processes == max) {
            out->next_page_token = xdup(out->processes[max - 1]->id);
            break;
        }
        out->processes[out->n_processes++] = make_process(id, &list.items[at]);
    }
    *ret = &out->base;
    return 0;
}

static int process_answer(const struct request *request, const char *id, const char *which, ProtobufCMessage **ret,
                          struct err *err)
{
    autodone(process_info) struct process_info info = { 0 };
    int r = sandbox_process_find(request->service, &request->caller, id, which, &info, err);

    if (r == 0)
        *ret = &make_process(id, &info)->base;
    return r;
}

static int process_find(const struct request *request, const char *sandbox_id, const char *process_id, char ret[SANDBOX_ID_MAX],
                        struct err *err)
{
    int r = request_find_sandbox(request, sandbox_id, ret, err);

    return r < 0 ? r : request_need(process_id, "process_id", err);
}

int handle_get_process(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__GetProcessRequest *in = message;
    char id[SANDBOX_ID_MAX];
    int r = process_find(request, in->sandbox_id, in->process_id, id, err);

    return r < 0 ? r : process_answer(request, id, in->process_id, ret, err);
}

/* ---- killing ---- */

static int process_take_grace(const Google__Protobuf__Duration *grace, uint32_t *ret_ms, struct err *err)
{
    int64_t ns;
    int r = take_duration(grace, "grace_period", &ns, err);

    if (r == 0 && ns > GRACE_NS_MAX)
        r = err_invalid(err, "grace_period must be at most %lld s", (long long) (GRACE_NS_MAX / CLOCK_NS_PER_SEC));
    *ret_ms = grace ? (uint32_t) (ns / CLOCK_NS_PER_MS) : SANDBOX_GRACE_MS_DEFAULT;
    return r;
}

int handle_kill_process(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__KillProcessRequest *in = message;
    char id[SANDBOX_ID_MAX];
    uint32_t grace_ms;
    int r = process_find(request, in->sandbox_id, in->process_id, id, err);

    if (r == 0)
        r = process_take_grace(in->grace_period, &grace_ms, err);
    if (r == 0)
        r = sandbox_process_end(request->service, &request->caller, id, in->process_id, grace_ms, err);
    return r < 0 ? r : process_answer(request, id, in->process_id, ret, err);
}

static void process_add_failures(Sandbox__V1__KillAllProcessesResponse *out, const struct buf *lines)
{
    size_t cap = 0;

    for (const char *at = lines->data, *end; at && *at; at = end + 1) {
        end = strchr(at, '\n');
        vec_room(&out->failures, &cap, out->n_failures);
        out->failures[out->n_failures++] = make_text(at, (size_t) (end - at));
    }
}

int handle_kill_all_processes(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__KillAllProcessesRequest *in = message;
    autodone(buf) struct buf failures = BUF_EMPTY;
    char id[SANDBOX_ID_MAX];
    uint32_t grace_ms;
    size_t count = 0;
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = process_take_grace(in->grace_period, &grace_ms, err);
    if (r == 0)
        r = sandbox_process_end_all(request->service, &request->caller, id, grace_ms, &count, &failures, err);
    if (r < 0)
        return r;
    Sandbox__V1__KillAllProcessesResponse *out = message_new(&sandbox__v1__kill_all_processes_response__descriptor);
    out->killed = (int32_t) count;
    process_add_failures(out, &failures);
    *ret = &out->base;
    return 0;
}

/* ---- logs ---- */

static int log_find_offset(struct sandbox_log *log, int64_t offset, int32_t tail_lines, uint64_t *ret, struct err *err)
{
    if (offset < 0 || tail_lines < 0)
        return err_invalid(err, "offset and tail_lines must not be negative");
    if (offset > 0 && tail_lines > 0)
        return err_invalid(err, "offset and tail_lines are both given");
    if (tail_lines > 0)
        return sandbox_log_tail(log, (uint64_t) tail_lines, ret, err);
    *ret = (uint64_t) offset < log->log.first ? log->log.first : (uint64_t) offset;
    return 0;
}

int handle_read_process_log(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ReadProcessLogRequest *in = message;
    autodone(sandbox_log) struct sandbox_log log = SANDBOX_LOG_NONE;
    autodone(buf) struct buf content = BUF_EMPTY;
    char id[SANDBOX_ID_MAX];
    uint64_t from = 0;
    int r = process_find(request, in->sandbox_id, in->process_id, id, err);

    if (r == 0 && (in->max_bytes < 0 || in->max_bytes > LOG_BYTES_MAX))
        r = err_invalid(err, "max_bytes must be between 0 and %lld", (long long) LOG_BYTES_MAX);
    if (r == 0)
        r = sandbox_log_open(request->service, &request->caller, id, in->process_id, &log, err);
    if (r == 0)
        r = log_find_offset(&log, in->offset, in->tail_lines, &from, err);
    if (r == 0)
        r = sandbox_log_read(&log, from, (size_t) (in->max_bytes ? in->max_bytes : LOG_BYTES_MAX), &content, err);
    if (r < 0)
        return r;
    Sandbox__V1__ReadProcessLogResponse *out = message_new(&sandbox__v1__read_process_log_response__descriptor);
    out->offset = (int64_t) from;
    out->next_offset = (int64_t) (from + content.len);
    out->first_offset = (int64_t) log.log.first;
    out->end_offset = (int64_t) log.log.end;
    out->running = log.process.is_running;
    out->data.len = content.len;
    out->data.data = content.len ? (uint8_t *) buf_dup_take(&content) : NULL;
    *ret = &out->base;
    return 0;
}

static ssize_t log_send_piece(const void *bytes, size_t len, uint64_t at, bool is_end, void *cookie)
{
    Sandbox__V1__ProcessLogChunk chunk = SANDBOX__V1__PROCESS_LOG_CHUNK__INIT;
    int r;

    (void) is_end;
    chunk.data = (ProtobufCBinaryData){ .data = (uint8_t *) (uintptr_t) bytes, .len = len };
    chunk.offset = (int64_t) (at + len);
    r = call_send(cookie, &chunk.base);
    return r < 0 ? r : (ssize_t) len;
}

static int log_send_end(struct call *call, const char *sandbox_id, const struct sandbox_log *log, uint64_t at)
{
    Sandbox__V1__ProcessLogChunk chunk = SANDBOX__V1__PROCESS_LOG_CHUNK__INIT;
    int r;

    chunk.offset = (int64_t) at;
    chunk.process = make_process(sandbox_id, &log->process);
    r = call_send(call, &chunk.base);
    protobuf_c_message_free_unpacked(&chunk.process->base, NULL);
    return r;
}

int handle_follow_process_log(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__FollowProcessLogRequest *in = message;
    autodone(sandbox_log) struct sandbox_log log = SANDBOX_LOG_NONE;
    char id[SANDBOX_ID_MAX];
    uint64_t at = 0;
    int r = process_find(request, in->sandbox_id, in->process_id, id, err);

    (void) ret;
    if (r == 0)
        r = sandbox_log_open(request->service, &request->caller, id, in->process_id, &log, err);
    if (r == 0 && in->only_new && (in->offset || in->tail_lines))
        r = err_invalid(err, "only_new is given, and offset or tail_lines");
    if (r == 0)
        r = log_find_offset(&log, in->offset, in->tail_lines, &at, err);
    if (in->only_new)
        at = log.log.end;
    if (r == 0)
        r = sandbox_log_follow(&log, &at, request->caller.cancel_fd, log_send_piece, request->call, err);
    return r < 0 ? r : log_send_end(request->call, id, &log, at);
}
