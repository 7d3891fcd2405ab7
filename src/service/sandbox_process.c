/* Background processes of workspaces: starting, listing, ending. The supervisor writes their records; this file reads them. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "sandbox/state_dir.h"
#include "service/sandbox_care.h"
#include "service/sandbox_run_int.h"
#include "service/service_int.h"
#include "wire/ctl_client.h"

#define TAG PREPARED_TAG
#define START_MS 60000
#define END_SLACK_MS 15000 /* beyond the grace: the supervisor reports after five seconds that a killed process has not ended */

void process_info_done(struct process_info *info)
{
    process_record_done(&info->record);
    free(info->label);
    free(info->session_id);
    *info = (struct process_info){ 0 };
}

void process_info_list_done(struct process_info_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        process_info_done(&list->items[i]);
    free(list->items);
    *list = (struct process_info_list){ 0 };
}

/* ---- records ---- */

static int make_note(const struct sandbox_command *command, char **ret, struct err *err)
{
    json_t *note = json_pack("{s:s, s:s}", "name", command->label, "sessionId", command->session_id);
    char *text = note ? json_dumps(note, JSON_COMPACT) : NULL;

    json_decref(note);
    if (!text || strlen(text) >= CTL_NOTE_MAX) {
        free(text);
        return err_invalid(err, "name and sessionId are too long");
    }
    *ret = text;
    return 0;
}

/* Takes ownership of the record. */
static void make_info(struct process_record *record, bool lives, struct process_info *ret)
{
    json_t *note = json_loads(record->note, JSON_REJECT_DUPLICATES, NULL);
    const char *label = json_string_value(json_object_get(note, "name"));
    const char *session = json_string_value(json_object_get(note, "sessionId"));

    *ret = (struct process_info){ .record = *record,
                                  .label = xdup(label ? label : ""),
                                  .session_id = xdup(session ? session : ""),
                                  .is_running = lives && record->stopped_ns == 0 };
    *record = (struct process_record){ 0 };
    json_decref(note);
}

/* ---- starting ---- */

/* An error has no field for the exit code that a shell would return, so it becomes the reason. */
static const char *reason_of(int status)
{
    return status == 127 ? "COMMAND_NOT_FOUND" : status == 126 ? "COMMAND_NOT_EXECUTABLE" : "COMMAND_NOT_STARTED";
}

int prepared_exec_await(int ctl_fd, char *payload, char name[CTL_NAME_MAX], struct err *err)
{
    for (;;) {
        struct ctl_reply reply;
        struct frame frame;
        int r = ctl_client_receive(ctl_fd, payload, START_MS, &frame, &reply);

        if (r < 0)
            return err_errno(err, r, "waiting for a process to start");
        frame_close_fds(&frame);
        if (reply.tag != TAG)
            continue;
        if (reply.type == CTL_REPLY_STARTED) {
            memcpy(name, reply.started.name, CTL_NAME_MAX);
            return 0;
        }
        if (reply.type == CTL_REPLY_ERROR)
            return err_set(err, reply.error.code, -EREMOTEIO, "%s", reply.error.text);
        if (reply.type == CTL_REPLY_FINISHED)
            return err_set_reason(
                err, err_set(err, ERR_INVALID_ARGUMENT, -reply.finished.error, "cannot be started: %s", reply.finished.text),
                reason_of(reply.finished.status));
    }
}

int prepared_exec_start(int ctl_fd, const struct prepared_exec *prepared, const struct sandbox_command *command, uint32_t flags,
                        char name[CTL_NAME_MAX], struct err *err)
{
    struct ctl_run run = { .flags = flags | CTL_RUN_LOGGED | CTL_RUN_LIMITS,
                           .rows = command->rows,
                           .cols = command->cols,
                           .limits = prepared->limits };
    autofree char *payload = malloc(FRAME_PAYLOAD_MAX), *note = NULL;
    autofd int strings_fd = -1;
    char made[ID_TEXT_MAX];
    struct frame frame;
    int r = payload ? make_note(command, &note, err) : err_errno(err, -ENOMEM, "asking for a process");

    if (r < 0)
        return r;
    id_new(PROCESS_ID_PREFIX, made);
    const struct ctl_command what = {
        .name = made, .session = note, .cwd = prepared->cwd, .argv = prepared->argv, .envp = (const char *const *) prepared->env
    };
    r = ctl_run_encode(CTL_REQUEST_EXEC, TAG, &run, &what, -1, payload, &frame, &strings_fd);
    if (r == -E2BIG)
        return err_set(err, ERR_INVALID_ARGUMENT, r, "command and environment are too long");
    if (r < 0)
        return err_errno(err, r, "asking for a process");
    r = ctl_client_send(ctl_fd, &frame, START_MS, err);
    return r < 0 ? r : prepared_exec_await(ctl_fd, payload, name, err);
}

static int load_info(int sandbox_fd, const char *name, struct process_info *ret, struct err *err)
{
    struct process_record record;
    autofd int dir_fd = process_dir_open(sandbox_fd, false);
    int r = dir_fd < 0 ? dir_fd : process_record_load(dir_fd, name, &record);

    if (r < 0)
        return err_errno(err, r, "reading the record of a process");
    make_info(&record, true, ret);
    return 0;
}

int sandbox_process_start(struct service *service, const struct caller *caller, const char *id,
                          const struct sandbox_command *command, struct process_info *ret, struct err *err)
{
    autodone(prepared_exec) struct prepared_exec prepared = { 0 };
    autoptr(sandbox_conn) conn = NULL;
    char name[CTL_NAME_MAX];
    autofd int fd = -1, dir_fd = -1;
    int r = sandboxes_find_conn(service, caller, id, &conn, err);

    if (r == 0)
        r = prepared_exec_make(service, conn, command, &prepared, err);
    if (r == 0)
        r = sandboxes_open_dir(service, caller, id, &dir_fd, err);
    if (r == 0)
        r = sandbox_conn_take_fd(conn, &fd, err);
    if (r == 0)
        r = prepared_exec_start(fd, &prepared, command, 0, name, err);
    if (r < 0)
        return r;
    sandbox_conn_give_fd(conn, steal_fd(&fd));
    return load_info(dir_fd, name, ret, err);
}

/* ---- find ---- */

static int list_in(int sandbox_fd, struct process_info_list *ret, struct err *err)
{
    autodone(process_record_list) struct process_record_list records = { 0 };
    autofd int dir_fd = process_dir_open(sandbox_fd, false);
    bool lives = sandbox_dir_is_running(sandbox_fd);
    int r = dir_fd == -ENOENT ? 0 : dir_fd < 0 ? dir_fd : process_record_list_load(dir_fd, &records);

    if (r < 0)
        return err_errno(err, r, "reading the records of processes");
    *ret = (struct process_info_list){ .items = xalloc((records.count + 1) * sizeof(*ret->items)) };
    for (size_t i = 0; i < records.count; i++) {
        /* It was requested, but has not started yet. */
        if (records.items[i].pid == 0)
            continue;
        make_info(&records.items[i], lives, &ret->items[ret->count]);
        ret->running += ret->items[ret->count++].is_running;
    }
    return 0;
}

int sandbox_process_list(struct service *service, const struct caller *caller, const char *id, struct process_info_list *ret,
                         struct err *err)
{
    autofd int dir_fd = -1;
    int r = sandboxes_open_dir(service, caller, id, &dir_fd, err);

    return r < 0 ? r : list_in(dir_fd, ret, err);
}

static bool is_it(const struct process_info *info, const char *which)
{
    char *end;
    unsigned long pid = strtoul(which, &end, 10);

    if (strcmp(info->record.name, which) == 0)
        return true;
    return *which >= '0' && *which <= '9' && !*end && pid == info->record.pid;
}

int sandbox_process_find(struct service *service, const struct caller *caller, const char *id, const char *which,
                         struct process_info *ret, struct err *err)
{
    autodone(process_info_list) struct process_info_list list = { 0 };
    struct process_info *found = NULL;
    int r = sandbox_process_list(service, caller, id, &list, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < list.count; i++) {
        if (is_it(&list.items[i], which) && (!found || !found->is_running || list.items[i].is_running))
            found = &list.items[i];
    }
    if (!found) {
        err_reject(err, -ENOENT, which, "is no process of this sandbox");
        if (err)
            err->code = ERR_NOT_FOUND;
        return err ? err_set_reason(err, -ENOENT, "PROCESS_UNKNOWN") : -ENOENT;
    }
    *ret = *found;
    *found = (struct process_info){ 0 };
    return 0;
}

/* ---- end ---- */

static int send_end(int fd, uint64_t tag, const char *name, uint32_t grace_ms, struct err *err)
{
    struct ctl_request request = { .type = CTL_REQUEST_END, .tag = tag, .end = { .grace_ms = grace_ms } };
    char payload[CTL_PROTO_SMALL_MAX];
    struct frame frame;
    int r;

    memcpy(request.end.name, name, strnlen(name, CTL_NAME_MAX - 1));
    r = ctl_request_encode(&request, payload, sizeof(payload), &frame);
    return r < 0 ? err_errno(err, r, "ending a process") : ctl_client_send(fd, &frame, START_MS, err);
}

/* A process that has ended by itself meanwhile is a success. */
static int await_end(int fd, uint64_t tag, char *payload, uint32_t grace_ms, struct err *err)
{
    struct ctl_reply reply;
    int r = ctl_client_await(fd, tag, &reply, payload, (int) grace_ms + END_SLACK_MS, err);

    return r == -EREMOTEIO && err->code == ERR_NOT_FOUND ? 0 : r;
}

int sandbox_process_end(struct service *service, const struct caller *caller, const char *id, const char *which,
                        uint32_t grace_ms, struct err *err)
{
    autodone(process_info) struct process_info info = { 0 };
    autofree char *payload = malloc(FRAME_PAYLOAD_MAX);
    autoptr(sandbox_conn) conn = NULL;
    autofd int fd = -1;
    int r = payload ? sandbox_process_find(service, caller, id, which, &info, err) : err_errno(err, -ENOMEM, "ending");

    if (r < 0 || !info.is_running)
        return r;
    r = sandboxes_find_conn(service, caller, id, &conn, err);
    if (r == -ENOTCONN)
        return 0;
    if (r == 0)
        r = sandbox_conn_take_fd(conn, &fd, err);
    if (r == 0)
        r = send_end(fd, TAG, info.record.name, grace_ms, err);
    if (r == 0)
        r = await_end(fd, TAG, payload, grace_ms, err);
    if (r == 0)
        sandbox_conn_give_fd(conn, steal_fd(&fd));
    return r;
}

/* Asks all processes first and then waits, so that their grace periods run in parallel. ctl_client_await() drops replies with other tags,
 * and replies may come in any order, so each process has a connection of its own; there are few. */
int sandbox_process_end_all(struct service *service, const struct caller *caller, const char *id, uint32_t grace_ms,
                            size_t *ret_count, struct buf *failures, struct err *err)
{
    autodone(process_info_list) struct process_info_list list = { 0 };
    autofree char *payload = malloc(FRAME_PAYLOAD_MAX);
    autofree int *fds = NULL;
    autoptr(sandbox_conn) conn = NULL;
    int r = payload ? sandbox_process_list(service, caller, id, &list, err) : err_errno(err, -ENOMEM, "ending");

    *ret_count = 0;
    if (r < 0 || list.running == 0)
        return r;
    r = sandboxes_find_conn(service, caller, id, &conn, err);
    if (r < 0)
        return r == -ENOTCONN ? 0 : r;
    fds = xalloc(list.count * sizeof(*fds));
    for (size_t i = 0; i < list.count; i++) {
        struct err ignored = ERR_NONE;

        fds[i] = -1;
        if (list.items[i].is_running && sandbox_conn_take_fd(conn, &fds[i], &ignored) == 0 &&
            send_end(fds[i], TAG, list.items[i].record.name, grace_ms, &ignored) < 0)
            cleanup_fd(&fds[i]), fds[i] = -1;
    }
    for (size_t i = 0; i < list.count; i++) {
        struct err failure = ERR_NONE;

        if (!list.items[i].is_running)
            continue;
        r = fds[i] < 0 ? err_set(&failure, ERR_UNAVAILABLE, -EAGAIN, "the sandbox could not be asked")
                       : await_end(fds[i], TAG, payload, grace_ms, &failure);
        if (r == 0)
            sandbox_conn_give_fd(conn, fds[i]);
        else
            cleanup_fd(&fds[i]);
        *ret_count += r == 0;
        if (r < 0)
            buf_addf(failures, "%s: %s\n", list.items[i].record.name, failure.text);
    }
    return 0;
}

struct counting {
    const struct caller *caller;
    sandbox_process_count_fn fn;
    void *cookie;
};

static void count_in(struct sandbox_conn *conn, void *cookie)
{
    autodone(process_info_list) struct process_info_list list = { 0 };
    struct counting *counting = cookie;
    autofd int fd = -1;
    bool seen;

    if (*conn->codebase_id)
        return;
    pthread_mutex_lock(&conn->lock);
    seen = conn->owner && caller_sees(counting->caller, conn->owner) && conn->dir_fd >= 0;
    fd = seen ? dup(conn->dir_fd) : -1;
    pthread_mutex_unlock(&conn->lock);
    if (fd >= 0 && list_in(fd, &list, NULL) == 0)
        counting->fn(conn->id, list.count, list.running, counting->cookie);
}

void sandbox_process_count(struct service *service, const struct caller *caller, sandbox_process_count_fn fn, void *cookie)
{
    struct counting counting = { .caller = caller, .fn = fn, .cookie = cookie };

    sandbox_conns_each_running(&service->conns, count_in, &counting);
}
