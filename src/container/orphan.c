#include "container/orphan.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "container/create_body.h"
#include "container/response.h"

#define ASK_MS 30000
#define REMOVE_MS 8000
#define STEP_MS 50
#define NAME_MAX_BYTES 63

/* Returns 1 if the container exists, otherwise 0. */
static int orphan_exists(struct engine *engine, const char *id, struct err *err)
{
    autofree char *path = xprintf("/containers/%s/json", id);
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    int r =
        engine_send(engine, &(struct engine_request){ .method = "GET", .path = path, .timeout_ms = REMOVE_MS }, &response, err);

    return r < 0 ? r : response.status != 404;
}

int orphan_remove(struct engine *engine, const char *id, int wait_ms, struct err *err)
{
    autofree char *path = xprintf("/containers/%s?force=1&v=1", id);
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    int64_t deadline_ns = clock_now_ns() + wait_ms * CLOCK_NS_PER_MS;
    int r = engine_send(engine, &(struct engine_request){ .method = "DELETE", .path = path, .timeout_ms = REMOVE_MS },
                        &response, err);

    if (r < 0 || response.status == 404)
        return r;
    /* 409: it is being removed already, because init has ended. */
    if (response.status != 409 && (r = response_check(&response, err)) < 0)
        return err_wrap(err, r, "removing a container");
    while ((r = orphan_exists(engine, id, err)) > 0) {
        if (clock_now_ns() > deadline_ns)
            return err_set(err, ERR_UNAVAILABLE, -ETIMEDOUT, "the engine does not get a container removed");
        poll(NULL, 0, STEP_MS);
    }
    return r;
}

void orphan_list_path(const char *home, struct buf *out)
{
    /* The filter is {"label":["agentfense.home=<mark>"]}; a mark is hexadecimal. */
    buf_addf(out, "/containers/json?all=1&filters=%%7B%%22label%%22%%3A%%5B%%22" CREATE_BODY_LABEL_HOME "%%3D%s%%22%%5D%%7D",
             home);
}

/* Anyone may set a label, so it must be checked before it becomes a path. */
static bool is_name(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len <= NAME_MAX_BYTES && name[0] != '.' && !strchr(name, '/');
}

/* A container is unused if its sandbox has no supervisor, or does not exist any more. */
static bool is_in_use(int home_fd, const char *name)
{
    autofree char *path = xprintf("%s/lock", name);
    autofd int fd = is_name(name) ? path_open_beneath(home_fd, path, O_RDONLY, 0) : -EINVAL;

    return fd < 0 ? fd != -ENOENT : flock(fd, LOCK_SH | LOCK_NB) < 0;
}

static int sweep_one(struct engine *engine, const struct docker_order *order, int home_fd, const json_t *entry, struct err *err)
{
    const json_t *labels = json_object_get(entry, "Labels");
    const char *id = response_string(entry, "Id", ""), *name = response_string(labels, CREATE_BODY_LABEL_SANDBOX, "");
    bool is_own = strcmp(name, order->container.sandbox) == 0;

    /* We asked the engine for these only, but check again before anything is removed. */
    if (!response_is_id(id) || strcmp(response_string(labels, CREATE_BODY_LABEL_HOME, ""), order->container.home) != 0)
        return 0;
    if (is_own)
        return orphan_remove(engine, id, REMOVE_MS, err);
    if (!is_in_use(home_fd, name))
        orphan_remove(engine, id, 0, NULL);
    return 0;
}

int orphan_sweep(struct engine *engine, const struct docker_order *order, struct err *err)
{
    const char *dir = order->container.dir, *slash = strrchr(dir, '/');
    autofree char *home = xdupn(dir, slash ? (size_t) (slash - dir) : 0);
    autofd int home_fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
    autodone(buf) struct buf path = BUF_EMPTY;
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    autoptr(json_t) list = NULL;
    int r;

    orphan_list_path(order->container.home, &path);
    r = engine_send(engine, &(struct engine_request){ .method = "GET", .path = path.data, .timeout_ms = ASK_MS }, &response,
                    err);
    if (r == 0)
        r = response_check(&response, err);
    if (r == 0)
        r = response_json(&response, JSON_ARRAY, &list, err);
    for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
        r = sweep_one(engine, order, home_fd, json_array_get(list, i), err);
    return r;
}
