#include "container/container.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "container/container_dir.h"
#include "container/create_body.h"
#include "container/engine_caps.h"
#include "container/image.h"
#include "container/init_socket.h"
#include "container/orphan.h"
#include "container/response.h"
#include "runtime/cgroup_watch.h"
#include "runtime/docker_report.h"

#define ASK_MS 120000
#define LOOK_MS 10000
#define REMOVE_MS 8000
#define CREATE_FINISH_MS 8000
#define INIT_MS 30000
#define STEP_MS 250
#define ID_MAX 129
#define CREATE_TRIES 3

struct container {
    struct docker_order *order;  /* borrowed */
    struct container_ends *ends; /* borrowed */
    struct engine *engine;       /* owned */
    struct engine_caps caps;
    int listen_fd;     /* owned: where init connects */
    bool is_asked_for; /* the engine may have one, even if we do not know its id */
    char id[ID_MAX];
    pid_t init_pid;
    int init_pidfd;             /* owned */
    struct cgroup_watch *watch; /* owned; NULL: its counters are not visible */
    struct cgroup_hits reported;
};

static int container_post(struct container *c, const char *path, const char *body, int finish_ms,
                          struct engine_response *response, struct err *err)
{
    return engine_send(
        c->engine,
        &(struct engine_request){ .method = "POST", .path = path, .body = body, .timeout_ms = ASK_MS, .finish_ms = finish_ms },
        response, err);
}

static void on_progress(const char *text, void *cookie)
{
    const struct container *c = cookie;
    autofree char *line = xprintf("fetching '%s'%s%s", c->order->container.image, *text ? ": " : "", text);

    docker_report_send(c->ends->report_fd, DOCKER_REPORT_PROGRESS, 0, line);
}

static int container_prepare(struct container *c, struct err *err)
{
    const struct docker_order *order = c->order;
    int r = engine_caps_query(c->engine, order->container.oci_runtime, &c->caps, err);

    if (r == 0)
        r = engine_caps_check(&c->caps, &order->spec.limits, err);
    if (r == 0)
        r = orphan_sweep(c->engine, order, err);
    return r < 0 ? r : image_require(c->engine, order->container.image, !order->container.no_pull, on_progress, c, err);
}

static int container_request_create(struct container *c, const char *body, struct engine_response *response, struct err *err)
{
    autodone(buf) struct buf path = BUF_EMPTY;
    int r = 0;

    buf_add_str(&path, "/containers/create?name=");
    create_body_name(c->order, &path);
    c->is_asked_for = true;
    /* 409: the name is in use. The engine may have been creating a container for a supervisor that was killed. A container
     * without our labels stays, and the engine's error is returned. */
    for (int i = 0; r == 0 && i < CREATE_TRIES && (i == 0 || response->status == 409); i++) {
        r = i == 0 ? 0 : orphan_sweep(c->engine, c->order, err);
        if (r == 0)
            r = container_post(c, path.data, body, CREATE_FINISH_MS, response, err);
    }
    return r < 0 ? r : response_check(response, err);
}

static int container_create(struct container *c, struct err *err)
{
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    autoptr(json_t) create_body = create_body_new(c->order, &c->caps);
    autofree char *body = create_body ? json_dumps(create_body, JSON_COMPACT) : NULL;
    autoptr(json_t) made = NULL;
    const char *id;
    int r;

    if (!body)
        return err_set(err, ERR_INVALID_ARGUMENT, -EILSEQ, "a path or name is no UTF-8, which an engine cannot be told");
    r = container_request_create(c, body, &response, err);
    if (r == 0)
        r = response_json(&response, JSON_OBJECT, &made, err);
    if (r < 0)
        return r;
    id = response_string(made, "Id", "");
    if (!response_is_id(id))
        return err_set(err, ERR_UNAVAILABLE, -EBADMSG, "the engine's answer has no id");
    memcpy(c->id, id, strlen(id) + 1);
    return 0;
}

static int container_start(struct container *c, struct err *err)
{
    autofree char *path = xprintf("/containers/%s/start", c->id);
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    int r = container_post(c, path, NULL, 0, &response, err);

    return r < 0 ? r : response_check(&response, err);
}

/* Checks that the container still runs. A missing one did run, and the engine has removed it. */
static int check_runs(struct container *c, struct err *err)
{
    autofree char *path = xprintf("/containers/%s/json", c->id);
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    autoptr(json_t) json = NULL;
    const json_t *state;
    int r = engine_send(c->engine, &(struct engine_request){ .method = "GET", .path = path, .timeout_ms = LOOK_MS }, &response,
                        err);

    if (r < 0)
        return r;
    if (response.status == 404)
        return err_set(err, ERR_UNAVAILABLE, -ECHILD, "the container ended at once");
    if ((r = response_check(&response, err)) < 0 || (r = response_json(&response, JSON_OBJECT, &json, err)) < 0)
        return r;
    state = json_object_get(json, "State");
    if (response_is_true(state, "Running"))
        return 0;
    return err_set(err, ERR_UNAVAILABLE, -ECHILD, "the container ended at once, with code %d",
                   (int) response_number(state, "ExitCode", -1));
}

static int await_init(struct container *c, struct err *err)
{
    struct pollfd polled[] = { { .fd = c->listen_fd, .events = POLLIN }, { .fd = c->ends->stop_fd, .events = POLLIN } };
    int64_t deadline_ns = clock_now_ns() + INIT_MS * CLOCK_NS_PER_MS;

    while (poll(polled, 2, STEP_MS) <= 0) {
        int r = check_runs(c, err);

        if (r < 0)
            return r;
        if (clock_now_ns() > deadline_ns)
            return err_set(err, ERR_UNAVAILABLE, -ETIMEDOUT, "the container runs, but init in it does not answer");
    }
    return polled[1].revents ? err_set(err, ERR_CANCELLED, -ECANCELED, "it was told to stop") : 0;
}

/* Without visible counters the container runs all the same, only without events. */
static void watch_limits(struct container *c)
{
    unsigned controllers = CGROUP_PIDS | (c->order->spec.limits.memory_bytes ? CGROUP_MEMORY : 0);
    autoptr(cgroup) cgroup = NULL;
    struct err err = ERR_NONE;

    if (cgroup_of_process(c->init_pid, controllers, &cgroup, &err) < 0 || cgroup_watch_new(cgroup, &c->watch, &err) < 0)
        docker_report_send(c->ends->report_fd, DOCKER_REPORT_PROGRESS, 0, err.text);
}

/* An engine in another mount namespace does not see the fence and binds the directory beneath it, which leaks nothing but is
 * not the workspace. Only init runs in the container yet. */
static int check_workspace(const struct container *c, struct err *err)
{
    autofree char *root = xprintf("/proc/%d/root", (int) c->init_pid);
    autofd int root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat ours, theirs;

    if (root_fd < 0 || stat(c->order->spec.workspace, &ours) < 0 ||
        fstatat(root_fd, &RUNTIME_WORKSPACE[1], &theirs, AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(err, -errno, "looking at the workspace of the container");
    if (ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino)
        return 0;
    return err_set(
        err, ERR_FAILED_PRECONDITION, -EXDEV,
        "the engine does not see what is mounted at '%s': it or this program is in a mount namespace of its own; run "
        "both in the host's (in a unit of systemd without PrivateTmp, ProtectSystem and their like)",
        c->order->spec.workspace);
}

/* Reports init's pid before init may continue, so that the supervisor knows it before init's first message. */
static int container_accept_init(struct container *c, struct err *err)
{
    autofd int conn_fd = -1;
    int r = await_init(c, err);

    if (r == 0)
        r = init_socket_accept(c->listen_fd, c->order->spec.uid, &conn_fd, &c->init_pid, &c->init_pidfd, err);
    if (r < 0)
        return r;
    close(steal_fd(&c->listen_fd));
    r = check_workspace(c, err);
    if (r < 0)
        return r;
    watch_limits(c);
    docker_report_send(c->ends->report_fd, DOCKER_REPORT_STARTED, (uint64_t) c->init_pid, "");
    r = init_socket_pass_fd(conn_fd, c->ends->init_fd, err);
    close(steal_fd(&c->ends->init_fd));
    return r;
}

static void container_report_limits(struct container *c)
{
    struct cgroup_hits now;

    if (!c->watch)
        return;
    cgroup_watch_read(c->watch, &now);
    if (now.memory_kills > c->reported.memory_kills)
        docker_report_send(c->ends->report_fd, DOCKER_REPORT_MEMORY, now.memory_kills - c->reported.memory_kills, "");
    if (now.pids_refused > c->reported.pids_refused)
        docker_report_send(c->ends->report_fd, DOCKER_REPORT_PIDS, now.pids_refused - c->reported.pids_refused, "");
    c->reported = now;
}

/* Waits until init has ended or we are told to stop. This does not need the engine, which may be restarted meanwhile if it
 * keeps its containers running. */
static void container_watch(struct container *c)
{
    struct pollfd polled[] = { { .fd = c->ends->stop_fd, .events = POLLIN },
                               { .fd = c->init_pidfd, .events = POLLIN },
                               { .fd = c->watch ? cgroup_watch_fd(c->watch) : -1, .events = POLLIN } };

    do {
        if (poll(polled, 3, -1) > 0)
            container_report_limits(c);
    } while (!polled[0].revents && !polled[1].revents);
    container_report_limits(c);
}

/* Called after the orphans were removed, because one of them might be starting, and its init would connect to this socket. */
static int open_init_socket(struct container *c, struct err *err)
{
    autofd int dir_fd = -1;
    int r = container_dir_make(c->order, &dir_fd, err);

    return r < 0 ? r : init_socket_open(dir_fd, &c->listen_fd, err);
}

static int container_run_steps(struct container *c, struct err *err)
{
    static int (*const steps[])(struct container *, struct err *) = { container_prepare, open_init_socket, container_create,
                                                                      container_start, container_accept_init };
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(steps); i++)
        r = steps[i](c, err);
    if (r == 0)
        container_watch(c);
    return r;
}

/* If a slow engine never told us the id, the container is found by its labels, if it exists by now. */
static void container_remove(struct container *c)
{
    engine_ignore_stop(c->engine);
    if (c->id[0] != '\0')
        orphan_remove(c->engine, c->id, REMOVE_MS, NULL);
    else if (c->is_asked_for)
        orphan_sweep(c->engine, c->order, NULL);
}

int container_run(struct docker_order *order, struct container_ends *ends, struct err *err)
{
    struct container c = { .order = order, .ends = ends, .listen_fd = -1, .init_pidfd = -1 };
    int r = engine_new(order->container.engine, ends->stop_fd, &c.engine, err);

    if (r == 0) {
        r = container_run_steps(&c, err);
        /* Before the requests to the engine, which take time. */
        container_dir_unmount(order, ends->parent);
        container_remove(&c);
    }
    engine_free(c.engine);
    cgroup_watch_free(c.watch);
    cleanup_fd(&c.listen_fd);
    cleanup_fd(&c.init_pidfd);
    return r;
}
