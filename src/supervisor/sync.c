#include "supervisor/sync.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "supervisor/client.h"
#include "supervisor/codebase_sync.h"
#include "supervisor/sandbox.h"

#define JOBS_MAX 256
#define CONFLICT_EVENTS_MAX 100
#define CONFLICT_BYTES_MAX (CTL_SYNCED_PATHS_MAX / 3)

/* Owned by the main thread, except what the job's thread writes. */
struct sync_job {
    struct sync_job *next;
    struct sandbox *sandbox;
    struct client *client; /* borrowed; NULL: gone */
    uint64_t tag;
    enum ctl_request_type type;
    char by[CTL_NAME_MAX];
    struct buf paths; /* BASE_CHANGED: NUL-terminated paths */
    size_t path_count;

    /* For the thread, until it has ended. */
    struct fence *fence;
    struct codebase_sync *codebase_sync;
    int wake_fd;
    struct codebase_sync_result result;
    int r;
    struct err err;
};

static void job_free(struct sync_job *job)
{
    codebase_sync_result_done(&job->result);
    buf_done(&job->paths);
    free(job);
}

static int notify_fence(struct sync_job *job)
{
    autofree const char **paths = xalloc((job->path_count + 1) * sizeof(*paths));
    const char *at = job->paths.data;
    int r;

    for (size_t i = 0; i < job->path_count; i++, at += strlen(at) + 1)
        paths[i] = at;
    r = fence_base_changed(job->fence, paths, job->path_count);
    return r < 0 ? err_errno(&job->err, r, "renewing what the sandbox sees") : 0;
}

static void *sync_thread(void *cookie)
{
    struct sync_job *job = cookie;
    uint64_t one = 1;

    if (job->type == CTL_REQUEST_BASE_CHANGED)
        job->r = notify_fence(job);
    else if (job->codebase_sync)
        job->r = codebase_sync_run(job->codebase_sync, job->fence, job->by, &job->result, &job->err);
    else if ((job->r = fence_sync(job->fence)) < 0)
        err_errno(&job->err, job->r, "syncing the changes");
    if (write(job->wake_fd, &one, sizeof(one)) < 0)
        log_error("a sync ended and nobody hears of it", LOG_ERRNO("error", -errno));
    return NULL;
}

/* Adds the path if it fits. The counts in the reply include the others. */
static void add_path(struct buf *out, struct ctl_paths *list, size_t most, const char *mark, const char *path)
{
    size_t len = strlen(mark) + 1 + strlen(path) + 1;

    if (out->len + len > most)
        return;
    buf_add_str(out, mark);
    buf_add_char(out, '/');
    buf_add(out, path, strlen(path) + 1);
    list->count++;
    list->len = (uint32_t) out->len;
}

static void answer_synced(struct sync_job *job)
{
    const struct codebase_commit *commit = &job->result.commit;
    autodone(buf) struct buf conflicts = BUF_EMPTY, changes = BUF_EMPTY;
    struct ctl_reply reply = { .type = CTL_REPLY_SYNCED, .tag = job->tag };
    struct ctl_synced *synced = &reply.synced;

    synced->version = commit->version;
    synced->change_count = commit->change_count;
    synced->conflict_count = commit->conflict_count;
    synced->left_count = job->result.handed.left;
    for (size_t i = 0; i < commit->conflict_count; i++)
        add_path(&conflicts, &synced->conflicts, CONFLICT_BYTES_MAX, commit->conflicts[i].has_lost ? "-" : "+",
                 commit->conflicts[i].path);
    for (size_t i = 0; i < commit->change_count; i++)
        add_path(&changes, &synced->changes, CTL_SYNCED_PATHS_MAX - CONFLICT_BYTES_MAX, "", commit->changes[i].path);
    synced->conflicts.bytes = conflicts.data;
    synced->changes.bytes = changes.data;
    client_reply(job->client, &reply, -1);
}

static void report_conflicts(struct sync_job *job)
{
    const struct codebase_commit *commit = &job->result.commit;

    for (size_t i = 0; i < commit->conflict_count && i < CONFLICT_EVENTS_MAX; i++) {
        const struct codebase_conflict *conflict = &commit->conflicts[i];
        autofree char *path = xprintf("/%s", conflict->path);
        event_log_add(&job->sandbox->event_log,
                      &(struct ctl_event){
                          .kind = CTL_EVENT_SYNC_CONFLICT,
                          .exec = job->by,
                          .subject = path,
                          .detail = conflict->has_lost ? "lost" : "won",
                          .numbers = { (int64_t) commit->version, conflict->when_ns, conflict->other_ns },
                      });
    }
}

static void sync_reply(struct sync_job *job)
{
    if (job->r < 0)
        log_warn("a sync failed", LOG_STR("reason", job->err.text));
    report_conflicts(job);
    if (!job->client)
        return;
    if (job->r < 0)
        client_error(job->client, job->tag, &job->err);
    else if (job->codebase_sync && job->type == CTL_REQUEST_SYNC)
        answer_synced(job);
    else
        client_reply(job->client, &(struct ctl_reply){ .type = CTL_REPLY_OK, .tag = job->tag }, -1);
}

static void sync_reject(struct sync_job *job, enum err_code code, const char *why)
{
    struct err err = ERR_NONE;

    err_set(&err, code, -EBUSY, "%s", why);
    if (job->client)
        client_error(job->client, job->tag, &err);
    job_free(job);
}

static void start_next(struct sandbox *sandbox)
{
    struct syncs *syncs = &sandbox->syncs;

    while (syncs->waiting && !syncs->running) {
        struct sync_job *job = syncs->waiting;
        int r;

        syncs->waiting = job->next;
        syncs->count--;
        job->next = NULL;
        job->fence = fence_server_fence(sandbox->fence_server);
        job->codebase_sync = sandbox->codebase_sync;
        job->wake_fd = syncs->wake_fd;
        r = pthread_create(&syncs->thread, NULL, sync_thread, job);
        if (r)
            sync_reject(job, ERR_RESOURCE_EXHAUSTED, "there is no thread for a sync");
        else
            syncs->running = job;
    }
}

static void sync_finish(struct sandbox *sandbox)
{
    struct sync_job *job = sandbox->syncs.running;

    pthread_join(sandbox->syncs.thread, NULL);
    sandbox->syncs.running = NULL;
    sync_reply(job);
    job_free(job);
}

static void on_wake(uint32_t events, void *cookie)
{
    struct sandbox *sandbox = cookie;
    uint64_t count;

    (void) events;
    if (read(sandbox->syncs.wake_fd, &count, sizeof(count)) < 0 || !sandbox->syncs.running)
        return;
    sync_finish(sandbox);
    start_next(sandbox);
}

static int make_ready(struct sandbox *sandbox)
{
    struct syncs *syncs = &sandbox->syncs;
    int r;

    if (syncs->watch.reactor)
        return 0;
    syncs->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (syncs->wake_fd < 0)
        return -errno;
    r = watch_start(&syncs->watch, &sandbox->reactor, syncs->wake_fd, EPOLLIN, on_wake, sandbox);
    if (r < 0)
        close(syncs->wake_fd);
    return r;
}

void sync_request(struct sandbox *sandbox, struct client *client, const struct ctl_request *request)
{
    struct sync_job *job = xnew(struct sync_job), **at = &sandbox->syncs.waiting;

    *job = (struct sync_job){ .sandbox = sandbox, .client = client, .tag = request->tag, .type = request->type };
    if (request->type == CTL_REQUEST_SYNC) {
        memcpy(job->by, request->sync.by, sizeof(job->by));
    } else if (request->base_changed.count > 0) {
        buf_add(&job->paths, request->base_changed.bytes, request->base_changed.len);
        job->path_count = request->base_changed.count;
    }
    if (!sandbox->fence_server || (sandbox->state != CTL_STATE_RUNNING && sandbox->state != CTL_STATE_STOPPING)) {
        sync_reject(job, ERR_FAILED_PRECONDITION, "the sandbox is not running");
        return;
    }
    if (sandbox->syncs.count >= JOBS_MAX || make_ready(sandbox) < 0) {
        sync_reject(job, ERR_RESOURCE_EXHAUSTED, "too many syncs are waiting");
        return;
    }
    while (*at)
        at = &(*at)->next;
    *at = job;
    sandbox->syncs.count++;
    start_next(sandbox);
}

void sync_lose_client(struct sandbox *sandbox, const struct client *client)
{
    for (struct sync_job *job = sandbox->syncs.waiting; job; job = job->next) {
        if (job->client == client)
            job->client = NULL;
    }
    if (sandbox->syncs.running && sandbox->syncs.running->client == client)
        sandbox->syncs.running->client = NULL;
}

void sync_stop(struct sandbox *sandbox)
{
    struct syncs *syncs = &sandbox->syncs;

    if (syncs->running)
        sync_finish(sandbox);
    while (syncs->waiting) {
        struct sync_job *job = syncs->waiting;
        syncs->waiting = job->next;
        sync_reject(job, ERR_ABORTED, "the sandbox has ended");
    }
    syncs->count = 0;
    if (syncs->watch.reactor) {
        watch_stop(&syncs->watch);
        close(syncs->wake_fd);
    }
}
