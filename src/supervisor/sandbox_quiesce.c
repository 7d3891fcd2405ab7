#include "supervisor/sandbox_quiesce.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "fence/quiesce.h"
#include "supervisor/client.h"
#include "supervisor/plain.h"
#include "supervisor/sandbox.h"

#define WAIT_MS_MAX 10000 /* a sandbox that stops waits for a quiesce that begins */

struct quiesce_revert {
    char *path; /* owned */
    int fd;     /* owned; -1: none */
};

struct sandbox_quiesce {
    struct sandbox *sandbox;
    struct client *client; /* borrowed; NULL: gone. For the reactor, like all fields not marked otherwise */
    uint64_t quiesce_tag, release_tag;
    bool is_reported; /* the client has got OK */
    pthread_t thread;
    struct waker waker;
    struct quiesce_revert *reverts; /* owned; for the thread once `is_over` is set */
    size_t count, cap, bytes, replacements;

    /* Read-only for the thread. */
    struct fence *fence; /* or */
    struct plain *plain;
    uint32_t wait_ms, limit_ms;

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    bool is_quiesced;
    bool is_over;     /* released, cancelled or timed out: no more reverts are accepted */
    bool reverts_all; /* released by the client: the reverts apply */
    bool has_ended;   /* the thread is finished */
    int r;
    struct err err;
};

/* Waits for the release or the time limit. */
static bool wait_for_release(struct sandbox_quiesce *h)
{
    struct timespec until = clock_timespec_of_ns(clock_now_ns() + h->limit_ms * CLOCK_NS_PER_MS);
    bool reverts_all;

    pthread_mutex_lock(&h->lock);
    h->is_quiesced = true;
    waker_wake(&h->waker);
    while (!h->is_over && pthread_cond_clockwait(&h->changed, &h->lock, CLOCK_MONOTONIC, &until) == 0)
        continue;
    h->is_over = true;
    reverts_all = h->reverts_all;
    pthread_mutex_unlock(&h->lock);
    return reverts_all;
}

static int release_fence(struct sandbox_quiesce *h, struct fence_quiesced *quiesce, bool reverts_all, struct err *err)
{
    size_t count = reverts_all ? h->count : 0;
    autofree struct fence_revert *reverts = xalloc((count + 1) * sizeof(*reverts));

    for (size_t i = 0; i < count; i++)
        reverts[i] = (struct fence_revert){ h->reverts[i].path, h->reverts[i].fd };
    return fence_resume(quiesce, reverts, count, err);
}

static int quiesce_fence(struct sandbox_quiesce *h, struct err *err)
{
    struct fence_quiesced *quiesce;
    int r = fence_quiesce(h->fence, (int) h->wait_ms, &quiesce, err);

    return r < 0 ? r : release_fence(h, quiesce, wait_for_release(h), err);
}

static int quiesce_plain(struct sandbox_quiesce *h, struct err *err)
{
    int r = plain_quiesce(h->plain, h->wait_ms, err);

    if (r < 0)
        return r;
    wait_for_release(h);
    plain_release(h->plain);
    return 0;
}

static void *sandbox_quiesce_thread(void *cookie)
{
    struct sandbox_quiesce *h = cookie;
    struct err err = ERR_NONE;
    int r = h->plain ? quiesce_plain(h, &err) : quiesce_fence(h, &err);

    pthread_mutex_lock(&h->lock);
    h->is_over = h->has_ended = true;
    h->r = r;
    h->err = err;
    pthread_mutex_unlock(&h->lock);
    waker_wake(&h->waker);
    return NULL;
}

static void sandbox_quiesce_free(struct sandbox_quiesce *h)
{
    waker_close(&h->waker);
    for (size_t i = 0; i < h->count; i++) {
        free(h->reverts[i].path);
        if (h->reverts[i].fd >= 0)
            close(h->reverts[i].fd);
    }
    free(h->reverts);
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->changed);
    free(h);
}

/* A client whose time ran out learns it from its RELEASE. */
static void report_end(struct sandbox_quiesce *h)
{
    if (!h->client)
        return;
    if (h->r < 0 && !h->is_reported)
        client_error(h->client, h->quiesce_tag, &h->err);
    else if (!h->is_reported)
        client_error(h->client, h->quiesce_tag, &(struct err){ .code = ERR_ABORTED, .text = "the sandbox is ending" });
    else if (h->release_tag && h->r < 0)
        client_error(h->client, h->release_tag, &h->err);
    else if (h->release_tag)
        client_ok(h->client, h->release_tag);
    else
        log_warn("a hold ended because its time was over");
}

static void sandbox_quiesce_finish(struct sandbox *sandbox)
{
    struct sandbox_quiesce *h = steal_ptr(&sandbox->quiesce);

    pthread_join(h->thread, NULL);
    report_end(h);
    sandbox_quiesce_free(h);
}

static void on_wake(void *cookie)
{
    struct sandbox_quiesce *h = cookie;
    bool is_quiesced, has_ended;

    pthread_mutex_lock(&h->lock);
    is_quiesced = h->is_quiesced;
    has_ended = h->has_ended;
    pthread_mutex_unlock(&h->lock);
    if (is_quiesced && !h->is_reported) {
        h->is_reported = true;
        if (h->client)
            client_ok(h->client, h->quiesce_tag);
    }
    if (has_ended)
        sandbox_quiesce_finish(h->sandbox);
}

/* Returns true if the reverts will be done. */
static bool end_quiesce(struct sandbox_quiesce *h, bool reverts_all)
{
    bool was_over;

    pthread_mutex_lock(&h->lock);
    was_over = h->is_over;
    if (!was_over) {
        h->is_over = true;
        h->reverts_all = reverts_all;
        pthread_cond_signal(&h->changed);
    }
    pthread_mutex_unlock(&h->lock);
    return !was_over;
}

static int accept_quiesce(struct sandbox *sandbox, struct client *client, const struct ctl_request *request, struct err *err)
{
    struct sandbox_quiesce *h;
    int r;

    if (sandbox->state != CTL_STATE_RUNNING)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "the sandbox is not running");
    if (sandbox->quiesce)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "the sandbox's files are held already");
    h = xnew(struct sandbox_quiesce);
    *h = (struct sandbox_quiesce){ .sandbox = sandbox, .client = client, .quiesce_tag = request->tag };
    h->plain = sandbox->plain;
    h->fence = h->plain ? NULL : fence_server_fence(sandbox->fence_server);
    h->wait_ms = request->quiesce.wait_ms < WAIT_MS_MAX ? request->quiesce.wait_ms : WAIT_MS_MAX;
    h->limit_ms = request->quiesce.limit_ms;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    r = waker_open(&h->waker, &sandbox->reactor, on_wake, h);
    if (r == 0)
        r = -pthread_create(&h->thread, NULL, sandbox_quiesce_thread, h);
    if (r < 0) {
        sandbox_quiesce_free(h);
        return err_errno(err, r, "holding the sandbox's files");
    }
    sandbox->quiesce = h;
    return 0;
}

static bool is_owner(const struct sandbox *sandbox, const struct client *client)
{
    struct sandbox_quiesce *h = sandbox->quiesce;
    bool is_over;

    if (!h || h->client != client || !h->is_reported || h->release_tag)
        return false;
    pthread_mutex_lock(&h->lock);
    is_over = h->is_over;
    pthread_mutex_unlock(&h->lock);
    return !is_over;
}

/* The thread reads the reverts only once `is_over` is set. */
static int accept_revert(struct sandbox *sandbox, struct client *client, const struct ctl_request *request, struct frame *frame,
                         struct err *err)
{
    struct sandbox_quiesce *h = sandbox->quiesce;
    const struct ctl_paths *paths = &request->revert.paths;
    struct stat st;

    if (!is_owner(sandbox, client))
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "the sandbox's files are not held");
    /* Only the client itself can change these files: without a fence there is no gate behind which we could. */
    if (h->plain)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "nothing can leave the changes of a sandbox without a fence");
    if (h->count + paths->count > CTL_REVERTS_MAX || h->bytes + paths->len > CTL_REVERTS_BYTES_MAX ||
        h->replacements + request->revert.replaces > CTL_REPLACEMENTS_MAX)
        return err_set(err, ERR_RESOURCE_EXHAUSTED, -EBUSY, "too many paths at once");
    /* Reading a pipe would block the fence. */
    if (request->revert.replaces && (fstat(frame->fds[0], &st) < 0 || !S_ISREG(st.st_mode)))
        return err_invalid(err, "content to replace a file's must be a regular file");
    for (const char *path = NULL; (path = ctl_paths_next(paths, path));) {
        int fd = request->revert.replaces ? frame_take_fd(frame, 0) : -1;

        vec_room(&h->reverts, &h->cap, h->count);
        h->reverts[h->count++] = (struct quiesce_revert){ xdup(path), fd };
        h->bytes += strlen(path) + 1;
        h->replacements += fd >= 0;
    }
    client_ok(client, request->tag);
    return 0;
}

static int accept_release(struct sandbox *sandbox, struct client *client, const struct ctl_request *request, struct err *err)
{
    if (!is_owner(sandbox, client) || !end_quiesce(sandbox->quiesce, true))
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "the sandbox's files are not held, or not any more");
    sandbox->quiesce->release_tag = request->tag;
    return 0;
}

int sandbox_quiesce_request(struct sandbox *sandbox, struct client *client, const struct ctl_request *request,
                            struct frame *frame, struct err *err)
{
    if (request->type == CTL_REQUEST_QUIESCE)
        return accept_quiesce(sandbox, client, request, err);
    if (request->type == CTL_REQUEST_REVERT)
        return accept_revert(sandbox, client, request, frame, err);
    return accept_release(sandbox, client, request, err);
}

void sandbox_quiesce_lose_client(struct sandbox *sandbox, const struct client *client)
{
    struct sandbox_quiesce *h = sandbox->quiesce;

    if (!h || h->client != client)
        return;
    h->client = NULL;
    end_quiesce(h, false);
}

void sandbox_quiesce_cancel(struct sandbox *sandbox)
{
    if (sandbox->quiesce)
        end_quiesce(sandbox->quiesce, false);
}

void sandbox_quiesce_stop(struct sandbox *sandbox)
{
    if (!sandbox->quiesce)
        return;
    sandbox_quiesce_cancel(sandbox);
    sandbox_quiesce_finish(sandbox);
}

bool sandbox_quiesce_is_active(const struct sandbox *sandbox)
{
    return sandbox->quiesce != NULL;
}
