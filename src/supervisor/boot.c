#include "supervisor/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/program.h"
#include "runtime/cgroup.h"
#include "supervisor/boot_prepare.h"
#include "supervisor/codebase_sync.h"
#include "supervisor/limit_default.h"
#include "supervisor/plain.h"
#include "supervisor/restrict.h"
#include "supervisor/sandbox.h"
#include "supervisor/sandbox_quiesce.h"
#include "supervisor/state_file.h"

/* Shorter than our starter waits (sandbox/launch.h), and long enough when hundreds of sandboxes start at once. */
#define HELLO_MS 50000
#define LIMIT_MS 200
#define FUSE_DEVICE "/dev/fuse"
#define FUSE_MAJOR 10
#define FUSE_MINOR 229

/* Makes the fence in a thread of its own while bwrap starts. Each takes milliseconds, and bwrap needs the fence only when it binds the
 * workspace. */
struct boot_fence {
    struct sandbox *sandbox;
    pthread_t thread;
    bool is_joined;
    int r; /* the thread's result, with `err` */
    struct err err;
};

static void name_cgroup(struct sandbox *sandbox)
{
    const char *id = sandbox_id(sandbox);
    autofree char *home = xdupn(sandbox->dir_path, (size_t) (id - 1 - sandbox->dir_path));

    cgroup_name_make(home, id, sandbox->cgroup);
    memcpy(sandbox->home_mark, sandbox->cgroup, CGROUP_NAME_MARK - 1);
}

/* Removes the cgroup that an earlier supervisor of this sandbox left when it was killed. */
static void remove_old_cgroup(const struct sandbox *sandbox)
{
    autoptr(cgroup_tree) tree = NULL;
    autoptr(cgroup) cgroup = NULL;
    struct err err = ERR_NONE;

    if (cgroup_tree_new(NULL, &tree, &err) < 0 || cgroup_find(tree, sandbox->cgroup, &cgroup) < 0)
        return;
    if (cgroup_kill(cgroup) < 0 || cgroup_remove(cgroup) < 0)
        log_warn("an old cgroup cannot be removed", LOG_STR("name", sandbox->cgroup));
}

/* Tells whether any user can execute the file. Then it is bind-mounted, and its pages are shared; otherwise it is copied. */
static bool is_open_to_all(const char *path)
{
    autofree char *part = xdup(path);
    struct stat st;

    if (stat(path, &st) < 0 || !(st.st_mode & S_IXOTH) || !(st.st_mode & S_IROTH))
        return false;
    for (char *slash = strrchr(part, '/'); slash && slash != part; slash = strrchr(part, '/')) {
        *slash = '\0';
        if (stat(part, &st) < 0 || !(st.st_mode & S_IXOTH))
            return false;
    }
    return true;
}

void boot_report_limits(struct sandbox *sandbox)
{
    struct runtime_event event;

    if (!sandbox->process || runtime_event_fd(sandbox->process) < 0)
        return;
    while (runtime_next_event(sandbox->process, &event) > 0) {
        bool is_memory = event.kind == RUNTIME_EVENT_MEMORY;

        if (event.kind == RUNTIME_EVENT_PROGRESS) {
            sandbox_report_progress(sandbox, event.text);
            continue;
        }
        sandbox->oom_count += is_memory ? event.count : 0;
        event_log_add(&sandbox->event_log, &(struct ctl_event){
                                               .kind = CTL_EVENT_LIMIT,
                                               .subject = is_memory ? "memory" : "pids",
                                               .numbers = { (int64_t) event.count, (int64_t) event.limit },
                                           });
    }
}

void boot_await_limits(struct sandbox *sandbox)
{
    bool is_counted_elsewhere = sandbox_spec_is_container(sandbox->spec) && sandbox->spec->memory_bytes;
    struct pollfd news = { .fd = sandbox->process && is_counted_elsewhere ? runtime_event_fd(sandbox->process) : -1,
                           .events = POLLIN };

    if (news.fd >= 0)
        poll(&news, 1, LIMIT_MS);
    boot_report_limits(sandbox);
}

static void on_limit(uint32_t events, void *cookie)
{
    (void) events;
    boot_report_limits(cookie);
}

/* Fails a sandbox that was running. We cannot know why a container ended, but we can say what to do. */
static void fail_running(struct sandbox *sandbox, struct err *err)
{
    if (sandbox_spec_is_container(sandbox->spec))
        err_wrap(err, -ECHILD,
                 "the container ended: its engine was stopped, or somebody removed it; its changes are kept, start it again");
    sandbox_fail(sandbox, err);
}

/* Fails a sandbox that never ran. Its last reports may be unread; runtime_explain() looks for the failure among them. */
static void fail_starting(struct sandbox *sandbox)
{
    struct err err = ERR_NONE;

    boot_report_limits(sandbox);
    runtime_explain(sandbox->process, &err);
    sandbox_fail(sandbox, &err);
}

static void on_process_end(uint32_t events, void *cookie)
{
    struct sandbox *sandbox = cookie;
    struct err err = ERR_NONE;

    (void) events;
    watch_stop(&sandbox->process_watch);
    if (sandbox->link.is_ready) {
        err_set(&err, ERR_ABORTED, -ECHILD, "the sandbox's first process was killed");
        fail_running(sandbox, &err);
        return;
    }
    fail_starting(sandbox);
}

/* Logs the messages of bwrap and init, and so keeps their pipe from filling up. */
static void on_runtime_stderr(uint32_t events, void *cookie)
{
    struct sandbox *sandbox = cookie;
    char text[1024];
    ssize_t n;

    (void) events;
    /* Until init has answered, the output is left for runtime_explain(). */
    if (!sandbox->link.is_ready) {
        watch_stop(&sandbox->output_watch);
        return;
    }
    n = read(sandbox->process->output_fd, text, sizeof(text));
    if (n > 0)
        log_warn("the sandbox says", LOG_BYTES("text", text, (size_t) n));
    else if (n == 0 || errno != EAGAIN)
        watch_stop(&sandbox->output_watch);
}

static int watch_process(struct sandbox *sandbox)
{
    struct runtime_process *process = sandbox->process;
    int r = 0;

    if (process->proc.pidfd >= 0)
        r = watch_start(&sandbox->process_watch, &sandbox->reactor, process->proc.pidfd, EPOLLIN, on_process_end, sandbox);
    if (r == 0 && runtime_event_fd(process) >= 0)
        r = watch_start(&sandbox->limit_watch, &sandbox->reactor, runtime_event_fd(process), EPOLLIN, on_limit, sandbox);
    return r;
}

static void on_link(int r, void *cookie)
{
    struct sandbox *sandbox = cookie;
    struct err err = ERR_NONE;

    /* The sandbox may have been told to stop in the same turn of the loop. */
    if (r == 0 && sandbox->state != CTL_STATE_BOOTING)
        return;
    if (r == 0) {
        timer_stop(&sandbox->boot_timer);
        boot_report_limits(sandbox); /* a container's first event is the pid of its init, which the state below includes */
        if (sandbox->process->output_fd >= 0)
            watch_start(&sandbox->output_watch, &sandbox->reactor, sandbox->process->output_fd, EPOLLIN, on_runtime_stderr,
                        sandbox);
        sandbox_enter(sandbox, CTL_STATE_RUNNING);
        /* After the clients were told, so that those who wait wake up meanwhile; and before the next request is read, so
         * that no code of the agent has run yet. */
        r = restrict_all_threads();
        if (r < 0)
            log_warn("the supervisor cannot restrict itself", LOG_ERRNO("error", r));
        return;
    }
    if (sandbox->link.is_ready) {
        err_errno(&err, r, "lost the link to the sandbox's init");
        fail_running(sandbox, &err);
        return;
    }
    fail_starting(sandbox);
}

static void at_boot_timeout(void *cookie)
{
    fail_starting(cookie);
}

/* Points into the sandbox's spec. The caller allocates `mounts` and `env`. */
static void fill_spec(const struct sandbox *sandbox, struct runtime_mount *mounts, const char **env, struct runtime_spec *ret)
{
    static const char *const init_argv[] = { "--fd", "3", NULL };
    const struct sandbox_spec *spec = sandbox->spec;

    for (size_t i = 0; i < spec->mount_count; i++)
        mounts[i] = (struct runtime_mount){ spec->mounts[i].src, spec->mounts[i].dst, spec->mounts[i].read_only };
    for (size_t i = 0; i < spec->env_count; i++)
        env[i] = spec->env[i];
    ret->id = sandbox->cgroup;
    ret->init_argv = init_argv;
    ret->mounts = mounts;
    ret->mount_count = spec->mount_count;
    ret->net = spec->net;
    ret->hostname = *spec->hostname ? spec->hostname : NULL;
    ret->uid = sandbox->identity.uid;
    ret->gid = sandbox->identity.gid;
    ret->limits = (struct runtime_limits){
        .memory_bytes = spec->memory_bytes,
        .memory_default_bytes = limit_default_memory(),
        .cpu_quota_us = spec->cpu_quota_us,
        .cpu_shares = spec->cpu_shares,
        .pids = spec->pids,
    };
    ret->tmp_bytes = spec->tmp_bytes;
    ret->env = env;
    ret->own_cgroup = spec->own_cgroup;
}

/* A container's init has the same uid inside and outside, because an engine maps no users. */
static void fill_container(const struct sandbox *sandbox, struct runtime_container *container, struct runtime_spec *spec)
{
    const struct sandbox_spec *from = sandbox->spec;

    *container = (struct runtime_container){
        .image = from->image,
        .engine = from->engine,
        .oci_runtime = from->oci_runtime,
        .sandbox = sandbox_id(sandbox),
        .home = sandbox->home_mark,
        .dir = sandbox->dir_path,
        .read_only_root = from->read_only_root,
        .no_pull = from->no_pull,
    };
    spec->container = container;
    spec->agent_uid = spec->uid;
    spec->agent_gid = spec->gid;
}

static void on_fence_end(int r, void *cookie)
{
    struct err err = ERR_NONE;

    err_errno(&err, r < 0 ? r : -ENOTCONN, "the fence stopped");
    sandbox_fail(cookie, &err);
}

/* Explains the usual reasons why a fence cannot be mounted. */
static int explain_fuse(int r, struct err *err)
{
    struct stat st;

    if (stat(FUSE_DEVICE, &st) < 0)
        return err_set(err, ERR_FAILED_PRECONDITION, r,
                       "there is no " FUSE_DEVICE
                       "; load the module (modprobe fuse), or give it to the container (--device " FUSE_DEVICE ")");
    if (!S_ISCHR(st.st_mode) || major(st.st_rdev) != FUSE_MAJOR || minor(st.st_rdev) != FUSE_MINOR)
        return err_set(err, ERR_FAILED_PRECONDITION, r, FUSE_DEVICE " is not the FUSE device; 'agentfense doctor' tells more");
    if (access(FUSE_DEVICE, R_OK | W_OK) < 0)
        return err_set(err, ERR_FAILED_PRECONDITION, r,
                       FUSE_DEVICE " is closed to this user (mode %04o); as root: chmod 0666 " FUSE_DEVICE,
                       (unsigned) st.st_mode & 07777);
    if (r == -EPERM || r == -EACCES)
        return err_wrap(err, r,
                        "mounting is forbidden here, as in most containers ('agentfense doctor' tells what is missing)");
    return r;
}

static int make_fence(struct sandbox *sandbox, struct err *err)
{
    struct fence_server_config config = {
        .dir_path = sandbox->dir_path,
        .mount_point = sandbox->mount_point,
        .spec = sandbox->spec,
        .base_fd = sandbox->base_fd,
        .uid = sandbox->identity.uid,
        .gid = sandbox->identity.gid,
        .reactor = &sandbox->reactor,
        .exec_of_pid = &sandbox->exec_of_pid,
        .event_log = &sandbox->event_log,
        .on_end = on_fence_end,
        .cookie = sandbox,
    };

    int r = codebase_sync_open(sandbox->spec, &sandbox->codebase_sync, err);
    if (r < 0)
        return r;
    if (plain_is_wanted(sandbox))
        return plain_start(sandbox, &sandbox->plain, err);
    r = fence_server_start(&config, &sandbox->fence_server, err);
    return r < 0 ? explain_fuse(r, err) : r;
}

static void *boot_fence_thread(void *cookie)
{
    struct boot_fence *start = cookie;

    start->r = make_fence(start->sandbox, &start->err);
    return NULL;
}

static int boot_fence_begin(struct boot_fence *start, struct sandbox *sandbox, struct err *err)
{
    int r;

    *start = (struct boot_fence){ .sandbox = sandbox, .err = ERR_NONE };
    r = pthread_create(&start->thread, NULL, boot_fence_thread, start);
    start->is_joined = r != 0;
    return r ? err_errno(err, -r, "starting a thread") : 0;
}

/* Waits for the fence; `cookie` is the struct boot_fence. Later calls return the same result. */
static int boot_fence_await(void *cookie, struct err *err)
{
    struct boot_fence *start = cookie;

    if (!start->is_joined)
        pthread_join(start->thread, NULL);
    start->is_joined = true;
    if (start->r < 0)
        *err = start->err;
    return start->r;
}

static int start_runtime(struct sandbox *sandbox, int init_socket, struct boot_fence *fence, struct err *err)
{
    struct runtime_spec spec = RUNTIME_SPEC_NONE;
    struct runtime_container container;
    struct runtime_mount mounts[RUNTIME_MOUNTS_MAX];
    autofree const char **env = xalloc((sandbox->spec->env_count + 1) * sizeof(*env));
    autofree char *init_path = NULL;
    autofd int init_fd = -1;
    int r;

    if (sandbox->spec->mount_count > RUNTIME_MOUNTS_MAX)
        return err_invalid(err, "%zu mounts; at most %d are possible", sandbox->spec->mount_count, RUNTIME_MOUNTS_MAX);
    r = program_find("agentfense-init", &init_path, err);
    if (r < 0)
        return r;
    name_cgroup(sandbox);
    fill_spec(sandbox, mounts, env, &spec);
    if (sandbox_spec_is_container(sandbox->spec))
        fill_container(sandbox, &container, &spec);
    if (spec.container || is_open_to_all(init_path) || sandbox->identity.uid == geteuid()) {
        spec.init_path = init_path;
    } else {
        init_fd = open(init_path, O_RDONLY | O_CLOEXEC);
        spec.init_fd = init_fd;
    }
    spec.workspace = sandbox->mount_point;
    spec.stage = sandbox->stage;
    spec.init_socket = init_socket;
    spec.await_workspace = boot_fence_await;
    spec.cookie = fence;
    if (!spec.container)
        remove_old_cgroup(sandbox);
    r = runtime_start(sandbox->runtime, &spec, &sandbox->process, err);
    if (r < 0 && spec.uid != geteuid() && strstr(err->text, "changing the user"))
        err_wrap(err, r,
                 "root here has no user %u to run the sandbox as; start it as an ordinary user, or outside this container",
                 spec.uid);
    return r;
}

/* Always waits for the fence, so that it is never half made, whatever happens to the runtime. */
static int start_both(struct sandbox *sandbox, int init_socket, struct err *err)
{
    struct boot_fence fence;
    struct err ignored = ERR_NONE;
    int r = boot_fence_begin(&fence, sandbox, err);

    if (r < 0)
        return r;
    r = runtime_new(sandbox->spec->runtime, &sandbox->runtime, err);
    if (r == 0)
        r = start_runtime(sandbox, init_socket, &fence, err);
    boot_fence_await(&fence, &ignored);
    return r;
}

static int start_init(struct sandbox *sandbox, struct err *err)
{
    int pair[2];
    int r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, -errno, "making init's socket");
    autofd int ours = pair[0], theirs = pair[1];
    r = start_both(sandbox, theirs, err);
    if (r < 0)
        return r;
    r = init_link_open(&sandbox->link, &sandbox->reactor, ours, on_link, sandbox);
    if (r == 0) {
        steal_fd(&ours);
        sandbox->link.nproc_rlimit = sandbox->process->nproc_rlimit;
        r = watch_process(sandbox);
    }
    if (r < 0)
        return err_errno(err, r, "watching the sandbox");
    if (!sandbox->process->keeps_time)
        timer_start(&sandbox->boot_timer, &sandbox->reactor, HELLO_MS, at_boot_timeout, sandbox);
    return 0;
}

void boot(struct sandbox *sandbox)
{
    static int (*const steps[])(struct sandbox *, struct err *) = {
        boot_allocate_identity,
        boot_choose_mount_point,
        start_init,
    };
    struct err err = ERR_NONE;

    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        if (steps[i](sandbox, &err) < 0) {
            sandbox_fail(sandbox, &err);
            return;
        }
    }
    /* The file includes the limits. It is written before any client learns that the sandbox runs and asks for them. */
    state_file_write(sandbox);
}

void boot_undo(struct sandbox *sandbox)
{
    timer_stop(&sandbox->boot_timer);
    watch_stop(&sandbox->process_watch);
    watch_stop(&sandbox->limit_watch);
    watch_stop(&sandbox->output_watch);
    boot_report_limits(sandbox);
    sandbox_quiesce_stop(sandbox);
    init_link_shut_down(&sandbox->link);
    init_link_close(&sandbox->link);
    runtime_process_free(steal_ptr(&sandbox->process));
    runtime_free(steal_ptr(&sandbox->runtime));
    job_queue_stop(&sandbox->file_ops);
    job_queue_stop(&sandbox->syncs);
    fence_server_free(steal_ptr(&sandbox->fence_server));
    plain_free(steal_ptr(&sandbox->plain));
    codebase_sync_close(steal_ptr(&sandbox->codebase_sync));
    identity_done(&sandbox->identity);
    free(steal_ptr(&sandbox->mount_point));
    free(steal_ptr(&sandbox->stage));
}
