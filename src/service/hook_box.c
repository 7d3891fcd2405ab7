#include "service/hook_box.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/copy_delta.h"
#include "sandbox/launch.h"
#include "service/exec.h"
#include "service/hello.h"
#include "service/profiles.h"
#include "wire/ctl_client.h"

#define STAGED "staged"
#define HELLO_MS 10000
#define SWEEP_TRIES 50
#define SWEEP_WAIT_US 100000

const char *hook_status_name(enum hook_status status)
{
    static const char *const names[] = { "passed", "failed", "timed_out", "error", "not_run" };

    return names[status];
}

void hook_results_done(struct hook_results *results)
{
    for (size_t i = 0; i < results->count; i++) {
        free(results->items[i].name);
        buf_done(&results->items[i].output);
    }
    free(results->items);
    *results = (struct hook_results){ 0 };
}

/* ---- the sandbox ---- */

/* Like the agent's sandbox, with fewer rights. Drivers that check nothing or copy the project are replaced by a fence. */
static int make_spec(struct service *service, const struct sandbox_row *row, int workspace_dir_fd, const char *name,
                     struct sandbox_spec **ret, struct err *err)
{
    autoptr(sandbox_spec) spec = NULL;
    struct driver_trial fence;
    int r = sandbox_spec_load(workspace_dir_fd, &spec, err);

    if (r < 0)
        return r;
    sandbox_driver_try(service, SANDBOX_DRIVER, &fence);
    const char *driver = fence.works ? SANDBOX_DRIVER : "overlayfs";
    if (strcmp(driver, SANDBOX_DRIVER) != 0 && strcmp(row->driver, driver) != 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -EOPNOTSUPP,
                       "hooks need the driver fence or overlayfs, and this host has neither");
    free(spec->id);
    free(spec->name);
    free(spec->driver);
    spec->id = xdup(name);
    spec->name = NULL;
    spec->driver = xdup(driver);
    spec->net = SANDBOX_NET_NONE;
    spec->created_ns = (uint64_t) clock_wall_ns();
    for (size_t i = 0; i < spec->mount_count; i++)
        spec->mounts[i].read_only = true;
    *ret = steal_ptr(&spec);
    return 0;
}

int hook_box_make(struct service *service, const struct sandbox_row *row, int workspace_dir_fd, struct hook_box *ret,
                  struct err *err)
{
    autoptr(sandbox_spec) spec = NULL;
    char name[ID_TEXT_MAX];
    int r;

    id_new(HOOK_BOX_PREFIX, name);
    r = make_spec(service, row, workspace_dir_fd, name, &spec, err);
    if (r == 0)
        r = state_dir_create(&service->state_dir, spec, false, &ret->dir_fd, err);
    if (r < 0)
        return r;
    ret->service = service;
    memcpy(ret->name, name, sizeof(name));
    ret->staged_path = state_dir_path(&service->state_dir, name, STAGED);
    fault("hook_box_made");
    return 0;
}

void hook_box_done(struct hook_box *box)
{
    struct err err = ERR_NONE;

    cleanup_fd(&box->dir_fd);
    free(box->staged_path);
    if (*box->name && state_dir_remove(&box->service->state_dir, box->name, &err) < 0)
        log_warn("what hooks ran in stays until the next start", LOG_STR("name", box->name), LOG_STR("error", err.text));
    *box = HOOK_BOX_NONE;
}

/* Its supervisor ends when it notices that it has no owner, which may take a moment. */
static int sweep_hook_box(const char *name, int dir_fd, void *cookie)
{
    struct service *service = cookie;
    struct err err = ERR_NONE;
    int r = -EBUSY;

    if (!id_is_valid(HOOK_BOX_PREFIX, name))
        return 0;
    for (int i = 0; i < SWEEP_TRIES && sandbox_dir_is_running(dir_fd); i++)
        usleep(SWEEP_WAIT_US);
    r = state_dir_remove(&service->state_dir, name, &err);
    if (r < 0 && r != -ENOENT)
        log_warn("what hooks ran in could not be removed", LOG_STR("name", name), LOG_STR("error", err.text));
    return 0;
}

void hook_boxes_sweep(struct service *service)
{
    struct err err = ERR_NONE;

    if (state_dir_each(&service->state_dir, sweep_hook_box, service, &err) < 0)
        log_warn("what hooks ran in is not looked for", LOG_STR("error", err.text));
}

/* ---- a hook's output ---- */

struct tail {
    char *bytes; /* owned; HOOK_OUTPUT_TAIL, a ring */
    uint64_t total;
};

static int on_hook_output(enum ctl_stream stream, const void *bytes, size_t len, void *cookie)
{
    struct tail *tail = cookie;
    const char *from = bytes;

    (void) stream;
    for (size_t i = 0; i < len; i++)
        tail->bytes[(tail->total + i) % HOOK_OUTPUT_TAIL] = from[i];
    tail->total += len;
    return tail->total > HOOK_OUTPUT_MAX ? -EFBIG : 0;
}

/* Line by line: a newline is the only control character that goes to a terminal. */
static void write_hook_output(const struct tail *tail, struct hook_result *ret)
{
    size_t len = tail->total < HOOK_OUTPUT_TAIL ? (size_t) tail->total : HOOK_OUTPUT_TAIL, begin = 0;
    uint64_t first = tail->total - len;
    autofree char *text = xalloc(len + 1);

    for (size_t i = 0; i < len; i++)
        text[i] = tail->bytes[(first + i) % HOOK_OUTPUT_TAIL];
    for (size_t i = 0; i <= len; i++) {
        if (i < len && text[i] != '\n')
            continue;
        buf_add_escaped(&ret->output, text + begin, i - begin);
        if (i < len)
            buf_add_char(&ret->output, '\n');
        begin = i + 1;
    }
    ret->is_cut = first > 0;
}

/* ---- running ---- */

static void set_hook_message(struct hook_result *ret, const char *text)
{
    if (ret->output.len > 0 && ret->output.data[ret->output.len - 1] != '\n')
        buf_add_char(&ret->output, '\n');
    buf_add_str(&ret->output, "agentfense: ");
    buf_add_str(&ret->output, text);
    buf_add_char(&ret->output, '\n');
}

static void judge_hook_exit(const struct hook *hook, const struct ctl_finished *finished, struct hook_result *ret)
{
    autofree char *text = NULL;

    ret->exit_code = exec_exit_code(finished);
    ret->status = ret->exit_code == 0 ? HOOK_PASSED : HOOK_FAILED;
    if (finished->end == CTL_END_TIMED_OUT) {
        ret->status = HOOK_TIMED_OUT;
        ret->exit_code = 124;
        set_hook_message(ret, "it took too long, and was killed");
    } else if (finished->end == CTL_END_NOT_STARTED) {
        text = xprintf("cannot run '%s': %s", hook->command, finished->text);
        ret->status = HOOK_FAILED;
        set_hook_message(ret, text);
    } else if (finished->end != CTL_END_EXITED && finished->end != CTL_END_SIGNALED) {
        ret->status = HOOK_ERROR;
        set_hook_message(ret, "the sandbox ended first");
    } else if (finished->flags & CTL_FINISHED_OOM) {
        set_hook_message(ret, "it ran out of memory");
    }
}

static int run_command(struct hook_box *box, const struct hook_call *call, struct tail *tail, struct exec_result *result,
                       struct err *err)
{
    autodone(execution_config) struct execution_config config = { 0 };
    struct exec_sink sink = { .fn = on_hook_output, .cookie = tail, .cancel_fd = call->cancel_fd };
    struct execution_limits none = { 0 }, limits;
    size_t count = 0;
    enum ctl_state state;
    autofd int fd = -1;
    int r = ctl_client_connect(box->dir_fd, &fd, err);

    if (r == 0)
        r = hello_await(fd, HELLO_MS, &state, err);
    if (r == 0)
        r = execution_config_get(box->service, &config, err);
    if (r < 0)
        return r;
    execution_config_clamp(&config, &none, &limits);
    while (call->hook->args[count])
        count++;
    autofree const char **argv = xalloc((count + 2) * sizeof(*argv));
    argv[0] = call->hook->command;
    for (size_t i = 0; i < count; i++)
        argv[i + 1] = call->hook->args[i];
    const struct exec_request request = {
        .name = "hook",
        .argv = argv,
        .cwd = "/workspace",
        .envp = call->env,
        .input = call->input,
        .input_len = call->input_len,
        .timeout_ms = (uint32_t) (call->hook->timeout_ns / CLOCK_NS_PER_MS),
        .limits = { .memory_bytes = (uint64_t) limits.memory_mb << 20,
                    .cpu_sec = (uint64_t) limits.cpu_sec,
                    .processes = (uint64_t) limits.processes,
                    .files = (uint64_t) limits.open_files },
    };
    fault("hook_running");
    return exec_run(fd, &request, &sink, result, err);
}

/* Makes the tree for this hook alone. */
static int make_hook_delta(struct hook_box *box, struct err *err)
{
    int r = file_remove_tree(box->dir_fd, "delta");
    autofd int staged = path_open_beneath(box->dir_fd, STAGED, O_RDONLY | O_DIRECTORY, 0);

    if (r < 0 || staged < 0)
        return err_errno(err, r < 0 ? r : staged, "laying out what is tried");
    return copy_delta_tree(staged, box->dir_fd, "delta", err);
}

/* An error of the sandbox is reported as a result as well: untested changes must not be applied. */
static int run_hook(struct hook_box *box, const struct hook_call *call, struct tail *tail, struct hook_result *ret,
                    struct err *err)
{
    autodone(launch) struct launch launched = LAUNCH_NONE;
    struct launch_wait wait = { .within_ms = LAUNCH_MS, .cancel_fd = call->cancel_fd };
    struct exec_result result = { 0 };
    int r = make_hook_delta(box, err);

    if (r == 0)
        r = launch(&box->service->state_dir, box->name, LAUNCH_OWNED, &wait, &launched, err);
    if (r == 0)
        r = run_command(box, call, tail, &result, err);
    launch_stop(&launched, 0, NULL, NULL);
    write_hook_output(tail, ret);
    if (r == -ECANCELED && tail->total > HOOK_OUTPUT_MAX) {
        ret->status = HOOK_FAILED;
        ret->exit_code = 137;
        set_hook_message(ret, "it printed more than anybody reads, and was killed");
        *err = ERR_NONE;
        return 0;
    }
    if (r == 0)
        judge_hook_exit(call->hook, &result.finished, ret);
    return r;
}

int hook_box_run(struct hook_box *box, const struct hook_call *call, struct hook_result *ret, struct err *err)
{
    autofree char *ring = xalloc(HOOK_OUTPUT_TAIL);
    struct tail tail = { .bytes = ring };
    int64_t began_ns = clock_now_ns();
    int r = run_hook(box, call, &tail, ret, err);

    ret->duration_ns = clock_now_ns() - began_ns;
    if (r == -ECANCELED || r == -EINTR)
        return err_set(err, ERR_CANCELLED, -ECANCELED, "nobody waits for the hooks any more; nothing was applied");
    if (r < 0) {
        ret->status = HOOK_ERROR;
        set_hook_message(ret, err->text);
        *err = ERR_NONE;
    }
    return 0;
}
