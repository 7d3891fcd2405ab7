#include "service/sessions.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "service/commands.h"
#include "service/events.h"
#include "service/janitor.h"
#include "service/service_int.h"
#include "store/event_row.h"
#include "store/session_row.h"
#include "wire/ctl_client.h"

#define OPEN_MS 30000
#define TAG 1

int refuse_session(struct err *err)
{
    return err_set_reason(err, err_set(err, ERR_NOT_FOUND, -ENOENT, "session not found"), "SESSION_NOT_FOUND");
}

void session_info_done(struct session_info *info)
{
    free(info->id);
    free(info->sandbox_id);
    free(info->shell);
    *info = (struct session_info){ 0 };
}

void session_list_done(struct session_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        session_info_done(&list->items[i]);
    free(list->items);
    *list = (struct session_list){ 0 };
}

static struct session_info info_of(const struct session_row *row)
{
    return (struct session_info){
        .id = xdup(row->id),
        .sandbox_id = xdup(row->sandbox_id),
        .shell = xdup(row->shell),
        .phase = row->status == SESSION_STATUS_CLOSED ? SESSION_CLOSED : SESSION_ACTIVE,
        .created_ns = row->created_ns,
        .closed_ns = row->closed_ns,
    };
}

/* ---- create ---- */

static uint32_t idle_ms(const struct service *service, int64_t wanted_ns)
{
    int64_t ms = (wanted_ns ? wanted_ns : service->options.session_idle_ns) / CLOCK_NS_PER_MS;

    return ms > INT_MAX ? INT_MAX : (uint32_t) ms;
}

static int open_shell(const struct service *service, int fd, const char *id, const struct session_request *request, char **env,
                      struct err *err)
{
    const char *shell[] = { request->shell, NULL };
    struct ctl_run run = { .timeout_ms = idle_ms(service, request->idle_ns) };
    autofree char *cwd = commands_make_workdir(request->workdir);
    struct ctl_command command = {
        .name = id, .cwd = cwd, .argv = *request->shell ? shell : shell + 1, .envp = (const char *const *) env
    };
    autofree char *payload = malloc(FRAME_PAYLOAD_MAX);
    autofd int strings_fd = -1;
    struct ctl_reply reply;
    struct frame frame;
    int r = payload ? ctl_run_encode(CTL_REQUEST_SESSION_OPEN, TAG, &run, &command, -1, payload, &frame, &strings_fd) : -ENOMEM;

    if (r < 0)
        return err_errno(err, r, "asking for a session");
    r = ctl_client_send(fd, &frame, OPEN_MS, err);
    return r < 0 ? r : ctl_client_await(fd, TAG, &reply, payload, OPEN_MS, err);
}

static int close_shell(struct sandbox_conn *conn, const char *id, struct err *err)
{
    struct ctl_request request = { .type = CTL_REQUEST_SESSION_CLOSE, .tag = TAG };
    autofree char *payload = malloc(FRAME_PAYLOAD_MAX);
    struct ctl_reply reply;
    autofd int fd = -1;
    int r = sandbox_conn_take_fd(conn, &fd, err);

    if (r < 0)
        return r;
    if (!payload)
        return err_errno(err, -ENOMEM, "closing a session");
    memcpy(request.session_close.name, id, strlen(id) + 1);
    r = ctl_client_call(fd, &request, -1, &reply, payload, OPEN_MS, err);
    if (r == 0 || r == -EREMOTEIO)
        sandbox_conn_give_fd(conn, steal_fd(&fd));
    return r;
}

/* The row first: a shell without a row could not be named, and would stay until its sandbox stops. */
static int create(struct service *service, struct sandbox_conn *conn, const struct session_request *request, char **env,
                  struct session_row *row, struct err *err)
{
    struct err ignored = ERR_NONE;
    autofd int fd = -1;
    int r = sandbox_conn_take_fd(conn, &fd, err);

    if (r == 0)
        r = session_row_insert(service->store, row, err);
    if (r < 0)
        return r;
    r = open_shell(service, fd, row->id, request, env, err);
    if (r < 0) {
        session_row_close(service->store, row->id, clock_wall_ns(), &ignored);
        return err_wrap(err, r, "failed to create session: shell '%s'", row->shell);
    }
    sandbox_conn_give_fd(conn, steal_fd(&fd));
    return 0;
}

int sessions_create(struct service *service, const struct caller *caller, const struct session_request *request,
                    struct session_info *ret, struct err *err)
{
    __attribute__((cleanup(commands_free_env))) char **env = NULL;
    autodone(session_row) struct session_row row = { 0 };
    autoptr(sandbox_conn) conn = NULL;
    char id[ID_TEXT_MAX];
    int r = service_find_conn(service, caller, request->sandbox_id, &conn, err);

    if (r == 0)
        r = commands_make_env(request->env, &env, err);
    if (r < 0)
        return r;
    id_new(SESSION_ID_PREFIX, id);
    row = (struct session_row){
        .id = xdup(id),
        .sandbox_id = xdup(conn->id),
        .host_id = xdup(service->host_id),
        .shell = xdup(*request->shell ? request->shell : "/bin/bash"),
        .status = SESSION_STATUS_ACTIVE,
        .created_ns = clock_wall_ns(),
    };
    r = create(service, conn, request, env, &row, err);
    if (r == 0)
        *ret = info_of(&row);
    return r;
}

/* ---- find ---- */

/* Returns the row of an open session whose sandbox the caller sees. */
static int find(struct service *service, const struct caller *caller, const char *id, struct session_row *ret, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row sandbox = { 0 };
    int r;

    if (!id_is_valid(SESSION_ID_PREFIX, id))
        return refuse_session(err);
    r = session_row_get(service->store, id, ret, err);
    if (r == 0 && ret->status == SESSION_STATUS_CLOSED)
        r = -ENOENT;
    if (r == 0)
        r = service_get_sandbox(service, caller, ret->sandbox_id, &sandbox, err);
    return r == -ENOENT ? refuse_session(err) : r;
}

int sessions_get(struct service *service, const struct caller *caller, const char *id, struct session_info *ret,
                 struct err *err)
{
    autodone(session_row) struct session_row row = { 0 };
    int r = find(service, caller, id, &row, err);

    if (r == 0)
        *ret = info_of(&row);
    return r;
}

int sessions_list(struct service *service, const struct caller *caller, const char *sandbox_id, struct session_list *ret,
                  struct err *err)
{
    autodone(sandbox_row) struct sandbox_row sandbox = { 0 };
    autodone(session_rows) struct session_rows rows = { 0 };
    struct store_page page = { .limit = STORE_PAGE_MAX };
    int r = service_get_sandbox(service, caller, sandbox_id, &sandbox, err);

    if (r == -ENOENT)
        return 0;
    if (r == 0)
        r = session_row_list(service->store, sandbox.id, NULL, SESSION_STATUS_ACTIVE, &page, &rows, err);
    if (r < 0)
        return r;
    ret->items = xalloc((rows.count + 1) * sizeof(*ret->items));
    for (size_t i = 0; i < rows.count; i++)
        ret->items[ret->count++] = info_of(&rows.rows[i]);
    return 0;
}

int sessions_destroy(struct service *service, const struct caller *caller, const char *id, struct err *err)
{
    autodone(session_row) struct session_row row = { 0 };
    autoptr(sandbox_conn) conn = NULL;
    int r = find(service, caller, id, &row, err);

    if (r < 0)
        return r;
    conn = sandbox_conn_find_running(&service->conns, row.sandbox_id);
    if (conn) {
        r = close_shell(conn, id, err);
        /* It has ended by itself meanwhile: that is a success. */
        if (r < 0 && r != -ENOTCONN && !(r == -EREMOTEIO && err->code == ERR_NOT_FOUND))
            return r;
    }
    r = session_row_close(service->store, id, clock_wall_ns(), err);
    if (r == -ESTALE) {
        *err = ERR_NONE;
        return 0;
    }
    if (r < 0)
        janitor_doubt(service);
    return r;
}

/* ---- reconcile ---- */

/* Returns 1 if the store has the supervisor's event of its end. The server that stored the event could not update the row. */
static int has_ended(struct service *service, const struct session_row *row, struct err *err)
{
    struct event_filter filter = { .sandbox_id = row->sandbox_id, .type = "session_closed" };
    autofree char *wanted = xprintf("\"%s\"", row->id);

    for (;;) {
        autodone(event_rows) struct event_rows rows = { 0 };
        int r = event_row_query(service->store, &filter, 0, &rows, err);

        if (r < 0 || rows.count == 0)
            return r < 0 ? r : 0;
        for (size_t i = 0; i < rows.count; i++) {
            if (strstr(rows.rows[i].payload, wanted))
                return 1;
        }
        filter.after = rows.rows[rows.count - 1].sequence;
    }
}

static int reconcile_one(struct service *service, const struct session_row *row, struct err *err)
{
    const unsigned alive = SANDBOX_STATUS_BIT(SANDBOX_STATUS_STARTING) | SANDBOX_STATUS_BIT(SANDBOX_STATUS_RUNNING) |
                           SANDBOX_STATUS_BIT(SANDBOX_STATUS_STOPPING);
    autodone(sandbox_row) struct sandbox_row sandbox = { 0 };
    int r = sandbox_row_get(service->store, row->sandbox_id, &sandbox, err);

    if (r < 0)
        return r == -ENOENT ? 0 : r;
    /* A sandbox in ERROR may have a supervisor that only does not answer, and then its shells still run. */
    if (sandbox.status == SANDBOX_STATUS_ERROR)
        r = !state_dir_is_running(&service->state_dir, row->sandbox_id);
    else
        r = alive & SANDBOX_STATUS_BIT((unsigned) sandbox.status) ? has_ended(service, row, err) : 1;
    if (r > 0)
        r = session_row_close(service->store, row->id, clock_wall_ns(), err);
    return r == -ESTALE || r == -ENOENT ? 0 : r;
}

int sessions_reconcile(struct service *service)
{
    struct err err = ERR_NONE;
    autofree char *token = NULL;

    if (!events_flush(service))
        return -EAGAIN;
    do {
        struct store_page page = { .limit = STORE_PAGE_MAX, .token = token };
        autodone(session_rows) struct session_rows rows = { 0 };
        int r = session_row_list(service->store, NULL, service->host_id, SESSION_STATUS_ACTIVE, &page, &rows, &err);

        for (size_t i = 0; r == 0 && i < rows.count; i++)
            r = reconcile_one(service, &rows.rows[i], &err);
        if (r < 0)
            return r;
        free(token);
        token = steal_ptr(&rows.next_token);
    } while (token);
    return 0;
}
