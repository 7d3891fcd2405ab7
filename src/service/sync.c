#include "service/sync.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "service/codebases_int.h"
#include "service/janitor.h"
#include "service/service_int.h"
#include "wire/ctl_client.h"

#define TAG 2
#define SYNC_MS 120000
#define TELL_MS 10000
#define PATHS_TOLD_MAX 256

void sync_result_done(struct sync_result *result)
{
    for (size_t i = 0; i < result->conflict_count; i++)
        free(result->conflicts[i]);
    free(result->conflicts);
    *result = (struct sync_result){ 0 };
}

/* ---- the other sandboxes ---- */

struct news {
    const char *codebase_id;
    const struct sandbox_conn *except;
    const char *const *paths;
    size_t count;
};

/* For supervisors, paths start at the workspace's root. */
static char **make_absolute(const char *const *paths, size_t count)
{
    char **absolute = xalloc((count + 1) * sizeof(*absolute));

    for (size_t i = 0; i < count; i++)
        absolute[i] = xprintf("%s%s", *paths[i] == '/' ? "" : "/", paths[i]);
    return absolute;
}

static void tell_one(struct sandbox_conn *conn, void *cookie)
{
    const struct news *news = cookie;
    autofree char *payload = NULL;
    struct err err = ERR_NONE;
    bool is_concerned;
    autofd int fd = -1;
    int r;

    pthread_mutex_lock(&conn->lock);
    is_concerned = conn != news->except && strcmp(conn->codebase_id, news->codebase_id) == 0;
    pthread_mutex_unlock(&conn->lock);
    if (!is_concerned || !(payload = malloc(FRAME_PAYLOAD_MAX)))
        return;
    r = sandbox_conn_take_fd(conn, &fd, &err);
    if (r == 0)
        r = ctl_client_base_changed(fd, TAG, news->paths, news->count, payload, TELL_MS, &err);
    if (r == 0)
        sandbox_conn_give_fd(conn, steal_fd(&fd));
    else if (r != -ENOTCONN) /* it has ended meanwhile, and will see all changes when it starts again */
        log_warn("a sandbox could not be told of a change", LOG_STR("sandbox_id", conn->id), LOG_STR("error", err.text));
}

void sync_tell_siblings(struct service *service, const char *codebase_id, const struct sandbox_conn *except,
                        const char *const *paths, size_t count)
{
    char **absolute = make_absolute(paths, count);
    struct news news = {
        .codebase_id = codebase_id, .except = except, .paths = (const char *const *) absolute, .count = count
    };

    sandbox_conns_each_running(&service->conns, tell_one, &news);
    for (size_t i = 0; i < count; i++)
        free(absolute[i]);
    free(absolute);
}

/* ---- this sandbox ---- */

/* Returns only the conflicts that this sandbox lost, because only these concern the caller. All conflicts become events (watch.c). */
static void take_conflicts(const struct ctl_synced *synced, struct sync_result *ret)
{
    for (const char *path = NULL; (path = ctl_paths_next(&synced->conflicts, path));) {
        if (*path == '+')
            continue;
        ret->conflicts = xgrow(ret->conflicts, ret->conflict_count + 1, sizeof(*ret->conflicts));
        ret->conflicts[ret->conflict_count++] = xdup(path + 1);
    }
}

static void note_version(struct service *service, const struct sandbox_conn *conn, const struct ctl_synced *synced)
{
    const char *paths[PATHS_TOLD_MAX];
    size_t count = 0;
    autoptr(codebase) codebase = NULL;
    struct err err = ERR_NONE;
    int r = codebase_open(service->codebases, conn->codebase_id, &codebase, &err);

    if (r == 0)
        r = codebases_refresh_row(service, codebase, &err);
    if (r < 0)
        log_warn("size and version of a codebase could not be noted", LOG_STR("codebase_id", conn->codebase_id),
                 LOG_STR("error", err.text));
    if (synced->changes.count == synced->change_count && synced->change_count <= PATHS_TOLD_MAX) {
        for (const char *path = NULL; (path = ctl_paths_next(&synced->changes, path));)
            paths[count++] = path;
    }
    sync_tell_siblings(service, conn->codebase_id, conn, paths, count);
}

static int sync_as(struct service *service, struct sandbox_conn *conn, int ctl_fd, const char *by, struct sync_result *ret,
                   struct err *err)
{
    autofree char *payload = malloc(FRAME_PAYLOAD_MAX);
    struct ctl_synced synced;
    int r = payload ? ctl_client_sync(ctl_fd, TAG, by, &synced, payload, SYNC_MS, err) : -ENOMEM;

    if (r < 0)
        return r;
    ret->version = synced.version;
    if (synced.change_count > 0)
        note_version(service, conn, &synced);
    take_conflicts(&synced, ret);
    return 0;
}

int sync_run(struct service *service, struct sandbox_conn *conn, int ctl_fd, const char *by, struct sync_result *ret,
             struct err *err)
{
    int r = conn->syncs ? sync_as(service, conn, ctl_fd, by, ret, err) : 0;

    /* The failure may be temporary, such as a full disk: the janitor tries again in its next round. */
    if (r < 0) {
        pthread_mutex_lock(&conn->lock);
        conn->needs_sync = true;
        pthread_mutex_unlock(&conn->lock);
    }
    return r;
}

int sync_now(struct service *service, struct sandbox_conn *conn, struct err *err)
{
    struct sync_result result = { 0 };
    autofd int fd = -1;
    int r = conn->syncs ? sandbox_conn_take_fd(conn, &fd, err) : 0;

    if (r < 0 || !conn->syncs)
        return r;
    r = sync_run(service, conn, fd, "", &result, err);
    if (r == 0)
        sandbox_conn_give_fd(conn, steal_fd(&fd));
    else
        log_warn("changes could not be synced and stay in the sandbox", LOG_STR("sandbox_id", conn->id),
                 LOG_STR("error", err->text));
    sync_result_done(&result);
    return r;
}

void sync_later(struct service *service, struct sandbox_conn *conn)
{
    pthread_mutex_lock(&conn->lock);
    conn->needs_sync = conn->syncs;
    pthread_mutex_unlock(&conn->lock);
    janitor_wake(service);
}

static void sync_if_needed(struct sandbox_conn *conn, void *cookie)
{
    struct err ignored = ERR_NONE;
    bool needs_sync;

    pthread_mutex_lock(&conn->lock);
    needs_sync = conn->needs_sync;
    conn->needs_sync = false;
    pthread_mutex_unlock(&conn->lock);
    if (needs_sync)
        sync_now(cookie, conn, &ignored);
}

void sync_all_that_need_it(struct service *service)
{
    sandbox_conns_each_running(&service->conns, sync_if_needed, service);
}
