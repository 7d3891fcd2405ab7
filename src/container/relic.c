#include "container/relic.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "container/answer.h"
#include "container/blueprint.h"

#define ASK_MS 30000
#define REMOVE_MS 8000
#define STEP_MS 50
#define NAME_MAX_BYTES 63

/* 1: it is there; 0: it is not. */
static int look(struct engine *engine, const char *id, struct err *err)
{
    autofree char *path = xprintf("/containers/%s/json", id);
    autodone(engine_answer) struct engine_answer answer = ENGINE_ANSWER_NONE;
    int r =
        engine_ask(engine, &(struct engine_question){ .method = "GET", .path = path, .timeout_ms = REMOVE_MS }, &answer, err);

    return r < 0 ? r : answer.status != 404;
}

int relic_remove(struct engine *engine, const char *id, int wait_ms, struct err *err)
{
    autofree char *path = xprintf("/containers/%s?force=1&v=1", id);
    autodone(engine_answer) struct engine_answer answer = ENGINE_ANSWER_NONE;
    int64_t deadline_ns = clock_now_ns() + wait_ms * CLOCK_NS_PER_MS;
    int r = engine_ask(engine, &(struct engine_question){ .method = "DELETE", .path = path, .timeout_ms = REMOVE_MS }, &answer,
                       err);

    if (r < 0 || answer.status == 404)
        return r;
    /* 409: it is being removed already, because init has ended. */
    if (answer.status != 409 && (r = answer_check(&answer, err)) < 0)
        return err_wrap(err, r, "removing a container");
    while ((r = look(engine, id, err)) > 0) {
        if (clock_now_ns() > deadline_ns)
            return err_set(err, ERR_UNAVAILABLE, -ETIMEDOUT, "the engine does not get a container removed");
        poll(NULL, 0, STEP_MS);
    }
    return r;
}

void relic_list_path(const char *home, struct buf *out)
{
    /* {"label":["agentfense.home=<mark>"]}; a mark is hexadecimal. */
    buf_addf(out, "/containers/json?all=1&filters=%%7B%%22label%%22%%3A%%5B%%22" BLUEPRINT_LABEL_HOME "%%3D%s%%22%%5D%%7D",
             home);
}

/* A label may be anybody's: it is no path before it was looked at. */
static bool is_name(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len <= NAME_MAX_BYTES && name[0] != '.' && !strchr(name, '/');
}

/* A sandbox that has no supervisor has no use for one, nor has one that is gone. */
static bool is_in_use(int home_fd, const char *name)
{
    autofree char *path = xprintf("%s/lock", name);
    autofd int fd = is_name(name) ? path_open_beneath(home_fd, path, O_RDONLY, 0) : -EINVAL;

    return fd < 0 ? fd != -ENOENT : flock(fd, LOCK_SH | LOCK_NB) < 0;
}

static int sweep_one(struct engine *engine, const struct docker_order *order, int home_fd, const json_t *entry, struct err *err)
{
    const json_t *labels = json_object_get(entry, "Labels");
    const char *id = answer_string(entry, "Id", ""), *name = answer_string(labels, BLUEPRINT_LABEL_SANDBOX, "");
    bool is_own = strcmp(name, order->container.sandbox) == 0;

    /* The engine was asked for these alone; it is looked at again before something goes. */
    if (!answer_is_id(id) || strcmp(answer_string(labels, BLUEPRINT_LABEL_HOME, ""), order->container.home) != 0)
        return 0;
    if (is_own)
        return relic_remove(engine, id, REMOVE_MS, err);
    if (!is_in_use(home_fd, name))
        relic_remove(engine, id, 0, NULL);
    return 0;
}

int relic_sweep(struct engine *engine, const struct docker_order *order, struct err *err)
{
    const char *dir = order->container.dir, *slash = strrchr(dir, '/');
    autofree char *home = xdupn(dir, slash ? (size_t) (slash - dir) : 0);
    autofd int home_fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
    autodone(buf) struct buf path = BUF_EMPTY;
    autodone(engine_answer) struct engine_answer answer = ENGINE_ANSWER_NONE;
    autoptr(json_t) list = NULL;
    int r;

    relic_list_path(order->container.home, &path);
    r = engine_ask(engine, &(struct engine_question){ .method = "GET", .path = path.data, .timeout_ms = ASK_MS }, &answer, err);
    if (r == 0)
        r = answer_check(&answer, err);
    if (r == 0)
        r = answer_json(&answer, JSON_ARRAY, &list, err);
    for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
        r = sweep_one(engine, order, home_fd, json_array_get(list, i), err);
    return r;
}
