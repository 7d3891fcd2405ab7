#include "supervisor/sync.h"

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

#define CONFLICT_EVENTS_MAX 100
#define CONFLICT_BYTES_MAX (CTL_SYNCED_PATHS_MAX / 3)

struct sync_job {
    struct job job;
    struct sandbox *sandbox;
    enum ctl_request_type type;
    char by[CTL_NAME_MAX];
    struct buf paths; /* BASE_CHANGED: NUL-terminated paths */
    size_t path_count;
    struct codebase_sync_result result;
};

static void sync_free(struct job *job)
{
    struct sync_job *sync = (struct sync_job *) job;

    codebase_sync_result_done(&sync->result);
    buf_done(&sync->paths);
    free(sync);
}

static int notify_fence(struct sync_job *sync, struct fence *fence)
{
    autofree const char **paths = xalloc((sync->path_count + 1) * sizeof(*paths));
    const char *at = sync->paths.data;
    int r;

    for (size_t i = 0; i < sync->path_count; i++, at += strlen(at) + 1)
        paths[i] = at;
    r = fence_base_changed(fence, paths, sync->path_count);
    return r < 0 ? err_errno(&sync->job.err, r, "renewing what the sandbox sees") : 0;
}

static void sync_run(struct job *job)
{
    struct sync_job *sync = (struct sync_job *) job;
    struct sandbox *sandbox = sync->sandbox;
    struct fence *fence = fence_server_fence(sandbox->fence_server);

    if (sync->type == CTL_REQUEST_BASE_CHANGED)
        job->r = notify_fence(sync, fence);
    else if (sandbox->codebase_sync)
        job->r = codebase_sync_run(sandbox->codebase_sync, fence, sync->by, &sync->result, &job->err);
    else if ((job->r = fence_sync(fence)) < 0)
        err_errno(&job->err, job->r, "syncing the changes");
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

static void sync_reply(struct sync_job *sync)
{
    const struct codebase_commit *commit = &sync->result.commit;
    autodone(buf) struct buf conflicts = BUF_EMPTY, changes = BUF_EMPTY;
    struct ctl_reply reply = { .type = CTL_REPLY_SYNCED, .tag = sync->job.tag };
    struct ctl_synced *synced = &reply.synced;

    synced->version = commit->version;
    synced->change_count = commit->change_count;
    synced->conflict_count = commit->conflict_count;
    synced->left_count = sync->result.handed.left;
    for (size_t i = 0; i < commit->conflict_count; i++)
        add_path(&conflicts, &synced->conflicts, CONFLICT_BYTES_MAX, commit->conflicts[i].has_lost ? "-" : "+",
                 commit->conflicts[i].path);
    for (size_t i = 0; i < commit->change_count; i++)
        add_path(&changes, &synced->changes, CTL_SYNCED_PATHS_MAX - CONFLICT_BYTES_MAX, "", commit->changes[i].path);
    synced->conflicts.bytes = conflicts.data;
    synced->changes.bytes = changes.data;
    client_reply(sync->job.client, &reply, -1);
}

static void report_conflicts(struct sync_job *sync)
{
    const struct codebase_commit *commit = &sync->result.commit;

    for (size_t i = 0; i < commit->conflict_count && i < CONFLICT_EVENTS_MAX; i++) {
        const struct codebase_conflict *conflict = &commit->conflicts[i];
        autofree char *path = xprintf("/%s", conflict->path);
        event_log_add(&sync->sandbox->event_log,
                      &(struct ctl_event){
                          .kind = CTL_EVENT_SYNC_CONFLICT,
                          .exec = sync->by,
                          .subject = path,
                          .detail = conflict->has_lost ? "lost" : "won",
                          .numbers = { (int64_t) commit->version, conflict->when_ns, conflict->other_ns },
                      });
    }
}

static void sync_finish(struct job *job)
{
    struct sync_job *sync = (struct sync_job *) job;

    if (job->r < 0) {
        log_warn("a sync failed", LOG_STR("reason", job->err.text));
        return;
    }
    report_conflicts(sync);
    if (job->client && sync->type == CTL_REQUEST_SYNC && sync->sandbox->codebase_sync)
        sync_reply(sync);
    else if (job->client)
        client_ok(job->client, job->tag);
}

static const struct job_ops sync_ops = { .run = sync_run, .finish = sync_finish, .free = sync_free };

void sync_request(struct sandbox *sandbox, struct client *client, const struct ctl_request *request)
{
    struct sync_job *sync = xnew(struct sync_job);

    *sync = (struct sync_job){ .job = { .ops = &sync_ops, .client = client, .tag = request->tag },
                               .sandbox = sandbox,
                               .type = request->type };
    if (request->type == CTL_REQUEST_SYNC) {
        memcpy(sync->by, request->sync.by, sizeof(sync->by));
    } else if (request->base_changed.count > 0) {
        buf_add(&sync->paths, request->base_changed.bytes, request->base_changed.len);
        sync->path_count = request->base_changed.count;
    }
    if (!sandbox->fence_server || (sandbox->state != CTL_STATE_RUNNING && sandbox->state != CTL_STATE_STOPPING))
        job_reject(&sync->job, ERR_FAILED_PRECONDITION, "the sandbox is not running");
    else
        job_queue_add(&sandbox->syncs, &sandbox->reactor, &sync->job);
}
