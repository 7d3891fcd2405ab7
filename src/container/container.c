#include "container/container.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "container/ability.h"
#include "container/answer.h"
#include "container/blueprint.h"
#include "container/doorstep.h"
#include "container/image.h"
#include "container/place.h"
#include "container/relic.h"
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
    struct ability ability;
    int door_fd;       /* owned: where init is expected */
    bool is_asked_for; /* there may be one, whether or not its id has reached us */
    char id[ID_MAX];
    pid_t init_pid;
    int init_pidfd;             /* owned */
    struct cgroup_watch *watch; /* owned; NULL: its counts are not to be seen */
    struct cgroup_hits told;
};

static int post(struct container *c, const char *path, const char *body, int finish_ms, struct engine_answer *answer,
                struct err *err)
{
    return engine_ask(
        c->engine,
        &(struct engine_question){ .method = "POST", .path = path, .body = body, .timeout_ms = ASK_MS, .finish_ms = finish_ms },
        answer, err);
}

static void on_progress(const char *text, void *cookie)
{
    const struct container *c = cookie;
    autofree char *line = xprintf("fetching '%s'%s%s", c->order->container.image, *text ? ": " : "", text);

    docker_report_send(c->ends->report_fd, DOCKER_REPORT_PROGRESS, 0, line);
}

static int prepare(struct container *c, struct err *err)
{
    const struct docker_order *order = c->order;
    int r = ability_ask(c->engine, order->container.oci_runtime, &c->ability, err);

    if (r == 0)
        r = ability_check(&c->ability, &order->spec.limits, err);
    if (r == 0)
        r = relic_sweep(c->engine, order, err);
    return r < 0 ? r : image_require(c->engine, order->container.image, !order->container.no_pull, on_progress, c, err);
}

static int ask_for_it(struct container *c, const char *body, struct engine_answer *answer, struct err *err)
{
    autodone(buf) struct buf path = BUF_EMPTY;
    int r = 0;

    buf_add_str(&path, "/containers/create?name=");
    blueprint_name(c->order, &path);
    c->is_asked_for = true;
    /* 409: the name is taken. An engine may still have been at what one before us, killed meanwhile, asked it for. What has not our
     * labels stays, and is the engine's to complain of. */
    for (int i = 0; r == 0 && i < CREATE_TRIES && (i == 0 || answer->status == 409); i++) {
        r = i == 0 ? 0 : relic_sweep(c->engine, c->order, err);
        if (r == 0)
            r = post(c, path.data, body, CREATE_FINISH_MS, answer, err);
    }
    return r < 0 ? r : answer_check(answer, err);
}

static int create(struct container *c, struct err *err)
{
    autodone(engine_answer) struct engine_answer answer = ENGINE_ANSWER_NONE;
    autoptr(json_t) blueprint = blueprint_new(c->order, &c->ability);
    autofree char *body = blueprint ? json_dumps(blueprint, JSON_COMPACT) : NULL;
    autoptr(json_t) made = NULL;
    const char *id;
    int r;

    if (!body)
        return err_set(err, ERR_INVALID_ARGUMENT, -EILSEQ, "a path or name is no UTF-8, which an engine cannot be told");
    r = ask_for_it(c, body, &answer, err);
    if (r == 0)
        r = answer_json(&answer, JSON_OBJECT, &made, err);
    if (r < 0)
        return r;
    id = answer_string(made, "Id", "");
    if (!answer_is_id(id))
        return err_set(err, ERR_UNAVAILABLE, -EBADMSG, "the engine's answer has no id");
    memcpy(c->id, id, strlen(id) + 1);
    return 0;
}

static int start(struct container *c, struct err *err)
{
    autofree char *path = xprintf("/containers/%s/start", c->id);
    autodone(engine_answer) struct engine_answer answer = ENGINE_ANSWER_NONE;
    int r = post(c, path, NULL, 0, &answer, err);

    return r < 0 ? r : answer_check(&answer, err);
}

/* Whether it still runs; one that is gone ran, and the engine has taken it away. */
static int check_runs(struct container *c, struct err *err)
{
    autofree char *path = xprintf("/containers/%s/json", c->id);
    autodone(engine_answer) struct engine_answer answer = ENGINE_ANSWER_NONE;
    autoptr(json_t) json = NULL;
    const json_t *state;
    int r =
        engine_ask(c->engine, &(struct engine_question){ .method = "GET", .path = path, .timeout_ms = LOOK_MS }, &answer, err);

    if (r < 0)
        return r;
    if (answer.status == 404)
        return err_set(err, ERR_UNAVAILABLE, -ECHILD, "the container ended at once");
    if ((r = answer_check(&answer, err)) < 0 || (r = answer_json(&answer, JSON_OBJECT, &json, err)) < 0)
        return r;
    state = json_object_get(json, "State");
    if (answer_is_true(state, "Running"))
        return 0;
    return err_set(err, ERR_UNAVAILABLE, -ECHILD, "the container ended at once, with code %d",
                   (int) answer_number(state, "ExitCode", -1));
}

static int await_init(struct container *c, struct err *err)
{
    struct pollfd polled[] = { { .fd = c->door_fd, .events = POLLIN }, { .fd = c->ends->stop_fd, .events = POLLIN } };
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

/* Counts are worth an event, not a sandbox: where they cannot be seen it goes on without. */
static void watch_limits(struct container *c)
{
    unsigned controllers = CGROUP_PIDS | (c->order->spec.limits.memory_bytes ? CGROUP_MEMORY : 0);
    autoptr(cgroup) cgroup = NULL;
    struct err err = ERR_NONE;

    if (cgroup_of_process(c->init_pid, controllers, &cgroup, &err) < 0 || cgroup_watch_new(cgroup, &c->watch, &err) < 0)
        docker_report_send(c->ends->report_fd, DOCKER_REPORT_PROGRESS, 0, err.text);
}

/* An engine in another mount namespace than ours does not see the fence, and binds the directory beneath it: no secret, but no workspace
 * either. Nothing but init runs in there yet. */
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

/* Told before init is let go on, so that whoever hears from init knows its pid already. */
static int welcome_init(struct container *c, struct err *err)
{
    autofd int guest = -1;
    int r = await_init(c, err);

    if (r == 0)
        r = doorstep_accept(c->door_fd, c->order->spec.uid, &guest, &c->init_pid, &c->init_pidfd, err);
    if (r < 0)
        return r;
    close(steal_fd(&c->door_fd));
    r = check_workspace(c, err);
    if (r < 0)
        return r;
    watch_limits(c);
    docker_report_send(c->ends->report_fd, DOCKER_REPORT_STARTED, (uint64_t) c->init_pid, "");
    r = doorstep_hand_over(guest, c->ends->init_fd, err);
    close(steal_fd(&c->ends->init_fd));
    return r;
}

static void tell_limits(struct container *c)
{
    struct cgroup_hits now;

    if (!c->watch)
        return;
    cgroup_watch_read(c->watch, &now);
    if (now.memory_kills > c->told.memory_kills)
        docker_report_send(c->ends->report_fd, DOCKER_REPORT_MEMORY, now.memory_kills - c->told.memory_kills, "");
    if (now.pids_refused > c->told.pids_refused)
        docker_report_send(c->ends->report_fd, DOCKER_REPORT_PIDS, now.pids_refused - c->told.pids_refused, "");
    c->told = now;
}

/* Until init has ended, or it is told to stop. The engine is not needed for it, and may be restarted meanwhile if it keeps its
 * containers running. */
static void watch(struct container *c)
{
    struct pollfd polled[] = { { .fd = c->ends->stop_fd, .events = POLLIN },
                               { .fd = c->init_pidfd, .events = POLLIN },
                               { .fd = c->watch ? cgroup_watch_fd(c->watch) : -1, .events = POLLIN } };

    do {
        if (poll(polled, 3, -1) > 0)
            tell_limits(c);
    } while (!polled[0].revents && !polled[1].revents);
    tell_limits(c);
}

/* After those that were left behind are gone: one of them might be about to start, and its init would come to this doorstep. */
static int open_doorstep(struct container *c, struct err *err)
{
    autofd int dir_fd = -1;
    int r = place_make(c->order, &dir_fd, err);

    return r < 0 ? r : doorstep_open(dir_fd, &c->door_fd, err);
}

static int live(struct container *c, struct err *err)
{
    static int (*const steps[])(struct container *, struct err *) = { prepare, open_doorstep, create, start, welcome_init };
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(steps); i++)
        r = steps[i](c, err);
    if (r == 0)
        watch(c);
    return r;
}

/* A container whose id did not reach us, from an engine that took too long over it, is known by its labels if it is there by now. */
static void take_away(struct container *c)
{
    engine_ignore_stop(c->engine);
    if (c->id[0] != '\0')
        relic_remove(c->engine, c->id, REMOVE_MS, NULL);
    else if (c->is_asked_for)
        relic_sweep(c->engine, c->order, NULL);
}

int container_run(struct docker_order *order, struct container_ends *ends, struct err *err)
{
    struct container c = { .order = order, .ends = ends, .door_fd = -1, .init_pidfd = -1 };
    int r = engine_new(order->container.engine, ends->stop_fd, &c.engine, err);

    if (r == 0) {
        r = live(&c, err);
        /* Before the engine is asked for anything, which takes its time. */
        place_forsake(order, ends->parent);
        take_away(&c);
    }
    engine_free(c.engine);
    cgroup_watch_free(c.watch);
    cleanup_fd(&c.door_fd);
    cleanup_fd(&c.init_pidfd);
    return r;
}
