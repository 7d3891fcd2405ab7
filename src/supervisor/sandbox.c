#include "supervisor/sandbox.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "supervisor/boot.h"
#include "supervisor/client.h"
#include "supervisor/ctl_server.h"
#include "supervisor/file_ops.h"
#include "supervisor/leftovers.h"
#include "supervisor/sandbox_quiesce.h"
#include "supervisor/state_file.h"
#include "supervisor/sync.h"

#define STOP_STEP_MS 10
/* Reading all processes of the host takes as long as a start, so the sweep waits until the first command got the CPU. */
#define SWEEP_AFTER_MS 250

/* The transitions of the diagram in sandbox.h. */
static const bool steps[CTL_STATE_FAILED + 1][CTL_STATE_FAILED + 1] = {
    [CTL_STATE_BOOTING] = { [CTL_STATE_RUNNING] = true, [CTL_STATE_STOPPING] = true, [CTL_STATE_FAILED] = true },
    [CTL_STATE_RUNNING] = { [CTL_STATE_STOPPING] = true, [CTL_STATE_FAILED] = true },
    [CTL_STATE_STOPPING] = { [CTL_STATE_STOPPED] = true },
};

static void on_event_log(void *cookie)
{
    for (struct client *client = ((struct sandbox *) cookie)->clients; client; client = client->next)
        client_send_events(client);
}

int sandbox_init(struct sandbox *sandbox, const char *dir_path, int dir_fd, int lock_fd, struct err *err)
{
    int r;

    *sandbox = (struct sandbox){
        .dir_path = dir_path,
        .dir_fd = dir_fd,
        .lock_fd = lock_fd,
        .base_fd = -1,
        .state = CTL_STATE_BOOTING,
        .started_ns = clock_wall_ns(),
        .identity = IDENTITY_NONE,
        .link = INIT_LINK_NONE,
        .exec_of_pid = EXEC_OF_PID_EMPTY,
        .syncs = SYNC_QUEUE,
        .file_ops = FILE_OPS_QUEUE,
        .listen_fd = -1,
        .signal_fd = -1,
        .process_dir_fd = -1,
        .reactor = { .epoll_fd = -1 },
    };
    sandbox->event_log.fn = on_event_log;
    sandbox->event_log.cookie = sandbox;
    r = sandbox_spec_load(dir_fd, &sandbox->spec, err);
    if (r < 0)
        return r;
    r = reactor_init(&sandbox->reactor);
    return r < 0 ? err_errno(err, r, "making the event loop") : 0;
}

/* Frees the runs that are left when nothing runs: those that nobody asked for. */
static void drop_runs(struct sandbox *sandbox)
{
    while (sandbox->runs)
        sandbox->runs->ops->drop(sandbox->runs);
}

void sandbox_done(struct sandbox *sandbox)
{
    int fds[] = { sandbox->signal_fd, sandbox->lock_fd, sandbox->dir_fd, sandbox->process_dir_fd, sandbox->base_fd };

    sandbox->owner = NULL;
    while (sandbox->clients)
        client_free(sandbox->clients);
    ctl_server_close(sandbox);
    drop_runs(sandbox);
    timer_stop(&sandbox->stop_timer);
    timer_stop(&sandbox->sweep_timer);
    watch_stop(&sandbox->signal_watch);
    event_log_done(&sandbox->event_log);
    exec_of_pid_done(&sandbox->exec_of_pid);
    sandbox_spec_free(steal_ptr(&sandbox->spec));
    reactor_done(&sandbox->reactor);
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

const char *sandbox_id(const struct sandbox *sandbox)
{
    return strrchr(sandbox->dir_path, '/') + 1;
}

static void at_sweep(void *cookie)
{
    struct sandbox *sandbox = cookie;

    sandbox->has_swept = true;
    leftovers_sweep(sandbox->dir_path);
}

void sandbox_enter(struct sandbox *sandbox, enum ctl_state state)
{
    struct ctl_reply reply = { .type = CTL_REPLY_STATE, .state = { .state = state, .code = sandbox->failure.code } };

    bool is_step = steps[sandbox->state][state];
    assert(is_step);
    (void) is_step;
    sandbox->state = state;
    memcpy(reply.state.text, sandbox->failure.text, strnlen(sandbox->failure.text, sizeof(reply.state.text) - 1));
    log_info("state", LOG_STR("state", ctl_state_name(state)), LOG_STR("error", sandbox->failure.text));
    /* Clients first, so that they do not wait longer than necessary. */
    for (struct client *client = sandbox->clients; client; client = client->next)
        client_reply(client, &reply, -1);
    state_file_write(sandbox);
    if (state == CTL_STATE_RUNNING)
        timer_start(&sandbox->sweep_timer, &sandbox->reactor, SWEEP_AFTER_MS, at_sweep, sandbox);
}

void sandbox_report_progress(struct sandbox *sandbox, const char *text)
{
    struct ctl_reply reply = { .type = CTL_REPLY_STATE, .state = { .state = sandbox->state, .code = ERR_OK } };

    log_info("progress", LOG_STR("text", text));
    if (sandbox->state != CTL_STATE_BOOTING)
        return;
    memcpy(reply.state.text, text, strnlen(text, sizeof(reply.state.text) - 1));
    for (struct client *client = sandbox->clients; client; client = client->next)
        client_reply(client, &reply, -1);
}

static void lose_runs(struct sandbox *sandbox)
{
    struct ctl_finished lost = { .end = CTL_END_LOST };

    snprintf(lost.text, sizeof(lost.text), "%s",
             sandbox->failure.code == ERR_OK ? "the sandbox was stopped" : sandbox->failure.text);
    for (struct run *run = sandbox->runs; run;) {
        struct run *next = run->next;
        if (run->phase < RUN_ENDED) {
            run_end(run, &lost);
            next = sandbox->runs;
        }
        run = next;
    }
}

/* Called from the reactor only, because it frees what callers elsewhere may use. */
static void go_down(void *cookie)
{
    struct sandbox *sandbox = cookie;

    ctl_server_close(sandbox);
    shell_lose_all(sandbox);
    lose_runs(sandbox);
    boot_undo(sandbox);
    sandbox->is_down = true;
    if (sandbox->state == CTL_STATE_STOPPING)
        sandbox_enter(sandbox, CTL_STATE_STOPPED);
    reactor_end(&sandbox->reactor);
}

void sandbox_fail(struct sandbox *sandbox, const struct err *err)
{
    if (sandbox->state == CTL_STATE_FAILED || sandbox->state == CTL_STATE_STOPPED)
        return;
    /* An end while stopping is expected. */
    if (sandbox->state != CTL_STATE_STOPPING) {
        sandbox->failure = *err;
        sandbox_enter(sandbox, CTL_STATE_FAILED);
    }
    timer_start(&sandbox->stop_timer, &sandbox->reactor, 0, go_down, sandbox);
}

static void at_stop_step(void *cookie)
{
    struct sandbox *sandbox = cookie;
    bool is_alive = false;

    for (struct run *run = sandbox->runs; run && !is_alive; run = run->next)
        is_alive = run->is_alive;
    if (!is_alive || clock_now_ns() >= sandbox->stop_until_ns)
        go_down(sandbox);
    else
        timer_start(&sandbox->stop_timer, &sandbox->reactor, STOP_STEP_MS, at_stop_step, sandbox);
}

void sandbox_chown_pipe(const struct sandbox *sandbox, int fd)
{
    /* A failure matters little: the stream itself still works. */
    if (sandbox->identity.uid != geteuid() && fchown(fd, sandbox->identity.uid, sandbox->identity.gid) < 0)
        log_debug("a pipe stays ours", LOG_ERRNO("error", -errno));
}

void sandbox_stop(struct sandbox *sandbox, uint32_t grace_ms)
{
    if (sandbox->state != CTL_STATE_BOOTING && sandbox->state != CTL_STATE_RUNNING)
        return;
    sandbox_enter(sandbox, CTL_STATE_STOPPING);
    sandbox_quiesce_cancel(sandbox);
    sandbox->stop_until_ns = clock_now_ns() + (int64_t) grace_ms * CLOCK_NS_PER_MS;
    if (grace_ms) {
        for (struct run *run = sandbox->runs; run; run = run->next) {
            if (run->is_alive)
                run->ops->kill(run, SIGTERM, CTL_KILL_TREE);
        }
    }
    timer_start(&sandbox->stop_timer, &sandbox->reactor, 0, at_stop_step, sandbox);
}

int sandbox_set_rules(struct sandbox *sandbox, const void *bytes, size_t len, struct err *err)
{
    autoptr(ruleset) rules = NULL;
    autoptr(sandbox_spec) changed = NULL;
    int r = sandbox_spec_load(sandbox->dir_fd, &changed, err);

    if (sandbox->state != CTL_STATE_RUNNING)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "the sandbox is not running");
    if (!sandbox->fence_server)
        return err_set(err, ERR_FAILED_PRECONDITION, -ENOTSUP, "the driver %s checks no rules", sandbox->spec->driver);
    if (r == 0)
        r = sandbox_spec_rules_decode(changed, bytes, len, err);
    if (r == 0)
        r = fence_server_compile(changed, sandbox->base_fd, &rules, err);
    /* Stored before they apply: after a crash in between, the next start applies them. */
    if (r == 0)
        r = sandbox_spec_store(sandbox->dir_fd, changed, true, err);
    if (r < 0)
        return r;
    r = fence_set_rules(fence_server_fence(sandbox->fence_server), rules);
    if (r < 0)
        return err_errno(err, r, "swapping the rules");
    sandbox_spec_free(sandbox->spec);
    sandbox->spec = steal_ptr(&changed);
    return 0;
}

void sandbox_get_status(struct sandbox *sandbox, struct ctl_status *ret)
{
    struct fence_stats stats = { 0 };

    if (sandbox->fence_server)
        fence_stats(fence_server_fence(sandbox->fence_server), &stats);
    *ret = (struct ctl_status){
        .state = sandbox->state,
        .pid = (uint64_t) getpid(),
        .init_pid = sandbox->process ? (uint64_t) sandbox->process->init_pid : 0,
        .started_ns = sandbox->started_ns,
        .execs = sandbox->run_count,
        .sessions = sandbox->shell_count,
        .clients = sandbox->client_count,
        .used_bytes = stats.used_bytes,
        .used_inodes = stats.used_inodes,
        .fence_requests = stats.requests,
        .denials = sandbox->event_log.denial_count,
        .denials_dropped = sandbox->event_log.dropped_count + stats.denials_dropped,
        .last_event = sandbox->event_log.last,
    };
}
