#include "service/commands.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/service_int.h"
#include "service/sync.h"
#include "store/session_row.h"

#define WORKSPACE "/workspace"
#define EXEC_ID_PREFIX "ex_"

void command_result_done(struct command_result *result)
{
    for (size_t i = 0; i < result->conflict_count; i++)
        free(result->conflicts[i]);
    free(result->conflicts);
    *result = (struct command_result){ 0 };
}

/* ---- the sandbox ---- */

int service_find_conn(struct service *service, const struct caller *caller, const char *id, struct sandbox_conn **ret,
                      struct err *err)
{
    autoptr(sandbox_conn) conn = sandbox_conn_find_running(&service->conns, id);
    bool is_seen = false, is_over_directory;

    /* The row shows why there is no conn, or resolves another form of the id. */
    if (!conn) {
        autodone(sandbox_row) struct sandbox_row row = { 0 };
        int r = service_get_sandbox(service, caller, id, &row, err);

        if (r < 0)
            return r;
        conn = sandbox_conn_find_running(&service->conns, row.id);
    }
    if (!conn)
        return refuse_not_running(err);
    pthread_mutex_lock(&conn->lock);
    is_seen = conn->owner && caller_sees(caller, conn->owner);
    is_over_directory = conn->codebase_id && !*conn->codebase_id;
    pthread_mutex_unlock(&conn->lock);
    if (!is_seen)
        return refuse_sandbox(err);
    if (is_over_directory)
        sandboxes_touch(service, conn->id);
    *ret = steal_ptr(&conn);
    return 0;
}

/* For a session, looks up its sandbox. The caller frees the result. */
static int find_sandbox_of(struct service *service, const struct command_request *request, char **ret, struct err *err)
{
    autodone(session_row) struct session_row row = { 0 };
    int r;

    if (!request->session_id) {
        *ret = xdup(request->sandbox_id);
        return 0;
    }
    if (!id_is_valid(SESSION_ID_PREFIX, request->session_id))
        return refuse_session(err);
    r = session_row_get(service->store, request->session_id, &row, err);
    if (r == -ENOENT || (r == 0 && row.status == SESSION_STATUS_CLOSED))
        return refuse_session(err);
    if (r == 0)
        *ret = xdup(row.sandbox_id);
    return r;
}

/* ---- environment and limits ---- */

uint32_t commands_timeout_ms(const struct service *service, int64_t wanted_ns)
{
    int64_t ns = wanted_ns ? wanted_ns : service->options.default_timeout_ns;
    int64_t ms;

    if (service->options.max_timeout_ns > 0 && (ns == 0 || ns > service->options.max_timeout_ns))
        ns = service->options.max_timeout_ns;
    ms = (ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;
    return ms > INT_MAX ? INT_MAX : (uint32_t) ms;
}

char *commands_make_workdir(const char *workdir)
{
    return !*workdir || *workdir == '/' ? xdup(workdir) : xprintf(WORKSPACE "/%s", workdir);
}

void commands_free_env(char ***env)
{
    for (size_t i = 0; *env && (*env)[i]; i++)
        free((*env)[i]);
    free(*env);
}

int commands_make_env(const struct pair_list *pairs, char ***ret, struct err *err)
{
    size_t count = pairs ? pairs->count : 0;
    char **env = xalloc((count + 1) * sizeof(*env));

    for (size_t i = 0; i < count; i++) {
        if (!*pairs->items[i].key || strchr(pairs->items[i].key, '=')) {
            commands_free_env(&env);
            return err_reject(err, -EINVAL, pairs->items[i].key, "is no name of a variable");
        }
        env[i] = xprintf("%s=%s", pairs->items[i].key, pairs->items[i].value);
    }
    *ret = env;
    return 0;
}

/* Streamed output is not collected, so it is unlimited unless the request limits it. The server's limit bounds collected output, even if
 * the request asks for more. */
static uint64_t limit_of(const struct service *service, const struct command_request *request)
{
    uint64_t most = request->streams ? 0 : service->options.max_output_bytes;

    return request->output_limit && (most == 0 || request->output_limit < most) ? request->output_limit : most;
}

/* ---- result ---- */

static int judge(const struct exec_result *result, struct err *err)
{
    const struct ctl_finished *finished = &result->finished;

    switch (finished->end) {
    case CTL_END_EXITED:
    case CTL_END_SIGNALED:
    case CTL_END_NOT_STARTED: /* exit code 126 or 127, as in a shell */
        return 0;
    case CTL_END_TIMED_OUT:
        return err_set_reason(err, err_set(err, ERR_DEADLINE_EXCEEDED, -ETIME, "command timed out"), "COMMAND_TIMED_OUT");
    case CTL_END_SESSION:
        return err_set_reason(err, err_set(err, ERR_FAILED_PRECONDITION, -EPIPE, "session is closed"), "SESSION_CLOSED");
    default:
        return err_set(err, ERR_UNAVAILABLE, -ECONNRESET, "failed to execute command: %s",
                       *finished->text ? finished->text : "the sandbox ended first");
    }
}

/* A command that could not start prints nothing, so print the reason to standard error, as a shell would. */
static void tell_why(const struct ctl_finished *finished, const char *cwd, exec_output_fn fn, void *cookie)
{
    autofree char *text = NULL;

    if (finished->end != CTL_END_NOT_STARTED || !*finished->text)
        return;
    text = xprintf("agentfense: cannot run /bin/sh in '%s': %s\n", *cwd ? cwd : WORKSPACE, finished->text);
    fn(CTL_STREAM_ERR, text, strlen(text), cookie);
}

static void fill_result(const struct exec_result *result, int64_t began_ns, struct command_result *ret)
{
    const struct ctl_finished *finished = &result->finished;

    ret->exit_code = exec_exit_code(finished);
    ret->out_cut = finished->flags & CTL_FINISHED_OUT_CUT;
    ret->err_cut = finished->flags & CTL_FINISHED_ERR_CUT;
    ret->ran_out_of_memory = finished->flags & CTL_FINISHED_OOM;
    ret->duration_ns = finished->wall_us ? (int64_t) finished->wall_us * 1000 : clock_now_ns() - began_ns;
}

/* If the sync fails, the command has still run: its changes stay in the sandbox, and the next sync includes them. Takes ownership of the
 * connection. */
static void sync_after(struct service *service, struct sandbox_conn *conn, int fd, struct command_result *ret)
{
    struct sync_result synced = { 0 };
    struct err err = ERR_NONE;
    int r = sync_run(service, conn, fd, ret->name, &synced, &err);

    if (r == 0)
        sandbox_conn_give_fd(conn, fd);
    else
        close(fd);
    if (r < 0)
        log_warn("changes could not be synced and stay in the sandbox", LOG_STR("sandbox_id", conn->id),
                 LOG_STR("error", err.text));
    ret->version = synced.version;
    ret->conflicts = steal_ptr(&synced.conflicts);
    ret->conflict_count = synced.conflict_count;
    synced.conflict_count = 0;
    sync_result_done(&synced);
}

/* The supervisor's errors keep their text. Errors that clients know get ours. */
static int refuse(const struct command_request *request, int r, struct err *err)
{
    if (r == -EREMOTEIO && request->session_id && err->code == ERR_NOT_FOUND)
        return refuse_session(err);
    if (r == -EREMOTEIO || r == -ECANCELED)
        return r;
    return err_wrap(err, r, "failed to execute command");
}

/* A server that ends lets commands go on. */
static bool is_ending(void *cookie)
{
    struct service *service = cookie;
    int64_t at = atomic_load(&service->ends_at_ns);

    return at != 0 && clock_now_ns() >= at;
}

static int run_in(struct service *service, struct sandbox_conn *conn, const struct command_request *request, int cancel_fd,
                  char **env, exec_output_fn fn, void *cookie, struct command_result *ret, struct err *err)
{
    struct exec_sink sink = { .fn = fn, .cookie = cookie, .cancel_fd = cancel_fd, .spare = is_ending, .spare_cookie = service };
    const char *shell[] = { "/bin/sh", "-c", request->command, NULL };
    const char *line[] = { request->command, NULL };
    autofree char *cwd = commands_make_workdir(request->workdir);
    struct exec_request exec = {
        .name = ret->name,
        .session = request->session_id,
        .argv = request->session_id ? line : shell,
        .cwd = cwd,
        .envp = (const char *const *) env,
        .input = request->input,
        .input_len = request->input_len,
        .timeout_ms = commands_timeout_ms(service, request->timeout_ns),
        .output_limit = limit_of(service, request),
    };
    int64_t began_ns = clock_now_ns();
    struct exec_result result;
    autofd int fd = -1;
    int r = sandbox_conn_take_fd(conn, &fd, err);

    if (r < 0)
        return r;
    id_new(EXEC_ID_PREFIX, ret->name);
    sandbox_conn_note_exec(conn, ret->name);
    r = exec_run(fd, &exec, &sink, &result, err);
    if (r == -ECANCELED && result.finished.end != 0)
        sync_after(service, conn, steal_fd(&fd), ret);
    if (r < 0)
        return refuse(request, r, err);
    tell_why(&result.finished, cwd, fn, cookie);
    fill_result(&result, began_ns, ret);
    sync_after(service, conn, steal_fd(&fd), ret);
    return judge(&result, err);
}

int command_run(struct service *service, const struct caller *caller, const struct command_request *request, exec_output_fn fn,
                void *cookie, struct command_result *ret, struct err *err)
{
    __attribute__((cleanup(commands_free_env))) char **env = NULL;
    autofree char *sandbox_id = NULL;
    autoptr(sandbox_conn) conn = NULL;
    int r = find_sandbox_of(service, request, &sandbox_id, err);

    if (r == 0)
        r = service_find_conn(service, caller, sandbox_id, &conn, err);
    /* An object of another owner does not exist for the caller: refuse the session as it would its sandbox. */
    if (r == -ENOENT && request->session_id)
        return refuse_session(err);
    if (r == 0)
        r = commands_make_env(request->env, &env, err);
    return r < 0 ? r : run_in(service, conn, request, caller->cancel_fd, env, fn, cookie, ret, err);
}
