/* Commands in workspaces: their preparation, and running those that the caller waits for. */
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "service/commands.h"
#include "service/profiles.h"
#include "service/sandbox_care.h"
#include "service/sandbox_run_int.h"
#include "service/service_int.h"

#define WORKSPACE "/workspace"
#define ARGS_MAX 4096
#define TIMEOUT_EXIT_CODE 124

void prepared_exec_done(struct prepared_exec *prepared)
{
    free(prepared->argv);
    commands_free_env(&prepared->env);
    free(prepared->cwd);
    *prepared = (struct prepared_exec){ 0 };
}

static int make_argv(const struct sandbox_command *command, struct prepared_exec *ret, struct err *err)
{
    size_t count = 0;

    if (!command->command || !*command->command)
        return err_invalid(err, "command is required");
    while (command->args && command->args[count])
        count++;
    if (count > ARGS_MAX)
        return err_invalid(err, "a command has at most %d arguments", ARGS_MAX);
    ret->argv = xalloc((count + 2) * sizeof(*ret->argv));
    ret->argv[0] = command->command;
    for (size_t i = 0; i < count; i++)
        ret->argv[i + 1] = command->args[i];
    return 0;
}

/* The profile's variables win, so that a request cannot replace the PATH or HOME that the profile's author chose. */
static int make_env(const struct sandbox_command *command, const struct profile *profile, struct prepared_exec *ret,
                    struct err *err)
{
    struct pair_list pairs = PAIR_LIST_EMPTY;
    autoptr(sandbox_spec) expanded = xnew(struct sandbox_spec);
    int r;

    pair_list_add(&pairs, "PROJECT_PATH", WORKSPACE);
    for (size_t i = 0; command->env && i < command->env->count; i++)
        pair_list_add(&pairs, command->env->items[i].key, command->env->items[i].value);
    r = profile_expand_env(profile, expanded);
    for (size_t i = 0; r == 0 && i < expanded->env_count; i++) {
        char *value = strchr(expanded->env[i], '=');

        *value = '\0';
        pair_list_add(&pairs, expanded->env[i], value + 1);
    }
    if (r == 0)
        r = commands_make_env(&pairs, &ret->env, err);
    pair_list_done(&pairs);
    return r;
}

static int load_spec(struct sandbox_conn *conn, struct sandbox_spec **ret, struct err *err)
{
    int r = -ENOTCONN;

    pthread_mutex_lock(&conn->lock);
    if (conn->dir_fd < 0)
        err_set(err, ERR_FAILED_PRECONDITION, r, "sandbox is not active");
    else
        r = sandbox_spec_load(conn->dir_fd, ret, err);
    pthread_mutex_unlock(&conn->lock);
    return r;
}

/* A sandbox is confined when it starts. A command that requests another confinement is refused: it would have less access, or more, than
 * its caller assumes. */
static int check_confinement(struct service *service, struct sandbox_conn *conn, const struct sandbox_command *command,
                             const struct profile *profile, struct err *err)
{
    autoptr(sandbox_spec) spec = NULL;
    autoptr(sandbox_spec) wanted = NULL;
    bool names_profile = *command->profile != '\0';
    int r;

    if (!names_profile && command->network == WISH_NONE)
        return 0;
    r = load_spec(conn, &spec, err);
    if (r < 0)
        return r;
    if (command->network != WISH_NONE && (command->network == WISH_YES) != (spec->net == SANDBOX_NET_HOST))
        return err_invalid(err, "allowNetwork is decided when a sandbox starts, and this one has %s network",
                           spec->net == SANDBOX_NET_HOST ? "the host's" : "no");
    if (!names_profile)
        return 0;
    wanted = xnew(struct sandbox_spec);
    r = profile_apply(profile, service->options.allows_host_network, wanted, err);
    if (r == 0 && !profile_confines_like(wanted, spec))
        r = err_set(err, ERR_FAILED_PRECONDITION, -EBUSY,
                    "the sandbox is not confined as profile '%s' is, and that is decided when it starts", profile->id);
    return r;
}

static void set_limits(const struct execution_limits *limits, struct prepared_exec *ret)
{
    int64_t ms = limits->timeout_sec > INT_MAX / 1000 ? INT_MAX : limits->timeout_sec * 1000;

    ret->limits = (struct ctl_limits){ .memory_bytes = (uint64_t) limits->memory_mb << 20,
                                       .cpu_sec = (uint64_t) limits->cpu_sec,
                                       .processes = (uint64_t) limits->processes,
                                       .files = (uint64_t) limits->open_files };
    ret->timeout_ms = (uint32_t) ms;
}

/* A sandbox over a codebase has no profile: its confinement was chosen when it was made. */
static int make_plain(struct service *service, const struct sandbox_command *command, struct prepared_exec *ret,
                      struct err *err)
{
    int64_t sec = command->limits.timeout_sec;
    int r = make_argv(command, ret, err);

    if (r == 0 && (*command->profile || command->network != WISH_NONE))
        r = err_invalid(err, "profiles and networks are asked for of workspaces; this sandbox is confined as it was made");
    if (r == 0)
        r = commands_make_env(command->env, &ret->env, err);
    if (r < 0)
        return r;
    set_limits(&command->limits, ret);
    ret->timeout_ms = commands_timeout_ms(service, command->timeout_ns ? command->timeout_ns : sec * CLOCK_NS_PER_SEC);
    ret->cwd = commands_make_workdir(command->working_dir);
    return 0;
}

/* The limits' maximum also bounds the finer timeout of the command. */
static void refine_timeout(const struct sandbox_command *command, struct prepared_exec *ret)
{
    int64_t ms = (command->timeout_ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;

    if (ms > 0 && (ret->timeout_ms == 0 || ms < ret->timeout_ms))
        ret->timeout_ms = ms > INT_MAX ? INT_MAX : (uint32_t) ms;
}

/* Returns the named profile, or the one that the workspace was made with. If that has been removed since, its values are still in the spec. */
static int get_profile(struct service *service, const struct sandbox_conn *conn, const char *named, struct profile *ret,
                       struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    autofree char *own = NULL;
    int r;

    if (!*named) {
        r = sandbox_row_get(service->store, conn->id, &row, err);
        if (r < 0)
            return r;
        own = sandbox_profile(&row);
    }
    r = profiles_get(service, own ? own : named, ret, err);
    if (r != -ENOENT)
        return r;
    if (*named) {
        err->code = ERR_INVALID_ARGUMENT;
        return r;
    }
    *err = ERR_NONE;
    return profiles_get(service, PROFILE_DEFAULT, ret, err);
}

int prepared_exec_make(struct service *service, struct sandbox_conn *conn, const struct sandbox_command *command,
                       struct prepared_exec *ret, struct err *err)
{
    autodone(profile) struct profile profile = { 0 };
    autodone(execution_config) struct execution_config config = { 0 };
    struct execution_limits limits, asked = command->limits;
    int r;

    if (*conn->codebase_id)
        return make_plain(service, command, ret, err);
    r = make_argv(command, ret, err);
    if (r == 0)
        r = get_profile(service, conn, command->profile, &profile, err);
    if (r == 0)
        r = check_confinement(service, conn, command, &profile, err);
    if (r == 0)
        r = execution_config_get(service, &config, err);
    if (r == 0)
        r = make_env(command, &profile, ret, err);
    if (r < 0)
        return r;
    if (command->timeout_ns > 0)
        asked.timeout_sec = (command->timeout_ns + CLOCK_NS_PER_SEC - 1) / CLOCK_NS_PER_SEC;
    execution_config_clamp(&config, &asked, &limits);
    set_limits(&limits, ret);
    refine_timeout(command, ret);
    ret->cwd = commands_make_workdir(command->working_dir);
    return 0;
}

static void tell_why(const struct ctl_finished *finished, const char *command, exec_output_fn fn, void *cookie)
{
    autofree char *text = NULL;

    if (finished->end != CTL_END_NOT_STARTED)
        return;
    text = xprintf("agentfense: cannot run '%s': %s\n", command, finished->text);
    fn(CTL_STREAM_ERR, text, strlen(text), cookie);
}

static int judge(const struct exec_result *result, struct sandbox_exec_result *ret, struct err *err)
{
    const struct ctl_finished *finished = &result->finished;

    *ret = (struct sandbox_exec_result){
        .pid = result->pid,
        .exit_code = exec_exit_code(finished),
        .signal = finished->end == CTL_END_SIGNALED ? finished->status : 0,
        .out_cut = finished->flags & CTL_FINISHED_OUT_CUT,
        .err_cut = finished->flags & CTL_FINISHED_ERR_CUT,
        .ran_out_of_memory = finished->flags & CTL_FINISHED_OOM,
        .duration_ns = (int64_t) finished->wall_us * 1000,
    };
    switch (finished->end) {
    case CTL_END_EXITED:
    case CTL_END_SIGNALED:
    case CTL_END_NOT_STARTED: /* exit code 126 or 127, as in a shell */
        return 0;
    case CTL_END_TIMED_OUT:
        ret->timed_out = true;
        ret->exit_code = TIMEOUT_EXIT_CODE;
        return 0;
    default:
        return err_set(err, ERR_UNAVAILABLE, -ECONNRESET, "the command has no end: %s",
                       *finished->text ? finished->text : "the sandbox ended first");
    }
}

bool service_is_ending(struct service *service)
{
    int64_t at = atomic_load(&service->ends_at_ns);

    return at != 0 && clock_now_ns() >= at;
}

static bool is_ending(void *cookie)
{
    return service_is_ending(cookie);
}

int sandbox_exec(struct service *service, const struct caller *caller, const char *id, const struct sandbox_command *command,
                 exec_output_fn fn, void *cookie, struct sandbox_exec_result *ret, struct err *err)
{
    struct exec_sink sink = {
        .fn = fn, .cookie = cookie, .cancel_fd = caller->cancel_fd, .spare = is_ending, .spare_cookie = service
    };
    autodone(prepared_exec) struct prepared_exec prepared = { 0 };
    struct exec_result result = { 0 };
    autoptr(sandbox_conn) conn = NULL;
    char name[ID_TEXT_MAX];
    autofd int fd = -1;
    int r = sandboxes_find_conn(service, caller, id, &conn, err);

    if (r == 0)
        r = prepared_exec_make(service, conn, command, &prepared, err);
    if (r == 0)
        r = sandbox_conn_take_fd(conn, &fd, err);
    if (r < 0)
        return r;
    id_new("ex_", name);
    sandbox_conn_note_exec(conn, name);
    const struct exec_request request = {
        .name = name,
        .argv = prepared.argv,
        .cwd = prepared.cwd,
        .envp = (const char *const *) prepared.env,
        .input = command->input,
        .input_len = command->input_len,
        .timeout_ms = prepared.timeout_ms,
        .output_limit = command->output_limit ? command->output_limit : SANDBOX_OUTPUT_MAX,
        .limits = prepared.limits,
    };
    r = exec_run(fd, &request, &sink, &result, err);
    if (r < 0)
        return r == -EREMOTEIO || r == -ECANCELED ? r : err_wrap(err, r, "running '%s'", command->command);
    sandbox_conn_give_fd(conn, steal_fd(&fd));
    tell_why(&result.finished, command->command, fn, cookie);
    return judge(&result, ret, err);
}
