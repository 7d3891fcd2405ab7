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
    int wake_fd; /* owned */
    struct watch watch;
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

static void sandbox_quiesce_wake(struct sandbox_quiesce *h)
{
    uint64_t one = 1;

    if (write(h->wake_fd, &one, sizeof(one)) < 0)
        log_error("a hold changed and nobody hears of it", LOG_ERRNO("error", -errno));
}

/* Waits for the release or the time limit. */
static bool wait_for_release(struct sandbox_quiesce *h)
{
    struct timespec until = clock_timespec_of_ns(clock_now_ns() + h->limit_ms * CLOCK_NS_PER_MS);
    bool reverts_all;

    pthread_mutex_lock(&h->lock);
    h->is_quiesced = true;
    sandbox_quiesce_wake(h);
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
    sandbox_quiesce_wake(h);
    return NULL;
}

static void sandbox_quiesce_reject(struct client *client, uint64_t tag, enum err_code code, const char *why)
{
    struct err err = ERR_NONE;

    err_set(&err, code, -EBUSY, "%s", why);
    client_error(client, tag, &err);
}

static void reply_ok(struct client *client, uint64_t tag)
{
    client_reply(client, &(struct ctl_reply){ .type = CTL_REPLY_OK, .tag = tag }, -1);
}

static void sandbox_quiesce_free(struct sandbox_quiesce *h)
{
    watch_stop(&h->watch);
    if (h->wake_fd >= 0)
        close(h->wake_fd);
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
        sandbox_quiesce_reject(h->client, h->quiesce_tag, ERR_ABORTED, "the sandbox is ending");
    else if (h->release_tag && h->r < 0)
        client_error(h->client, h->release_tag, &h->err);
    else if (h->release_tag)
        reply_ok(h->client, h->release_tag);
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

static void on_wake(uint32_t events, void *cookie)
{
    struct sandbox_quiesce *h = cookie;
    bool is_quiesced, has_ended;
    uint64_t count;

    (void) events;
    if (read(h->wake_fd, &count, sizeof(count)) < 0)
        return;
    pthread_mutex_lock(&h->lock);
    is_quiesced = h->is_quiesced;
    has_ended = h->has_ended;
    pthread_mutex_unlock(&h->lock);
    if (is_quiesced && !h->is_reported) {
        h->is_reported = true;
        if (h->client)
            reply_ok(h->client, h->quiesce_tag);
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

static int sandbox_quiesce_start(struct sandbox_quiesce *h)
{
    int r;

    h->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->wake_fd < 0)
        return -errno;
    r = watch_start(&h->watch, &h->sandbox->reactor, h->wake_fd, EPOLLIN, on_wake, h);
    return r < 0 ? r : -pthread_create(&h->thread, NULL, sandbox_quiesce_thread, h);
}

static void accept_quiesce(struct sandbox *sandbox, struct client *client, const struct ctl_request *request)
{
    struct sandbox_quiesce *h;
    struct err err = ERR_NONE;
    int r;

    if (sandbox->state != CTL_STATE_RUNNING) {
        sandbox_quiesce_reject(client, request->tag, ERR_FAILED_PRECONDITION, "the sandbox is not running");
        return;
    }
    if (sandbox->quiesce) {
        sandbox_quiesce_reject(client, request->tag, ERR_FAILED_PRECONDITION, "the sandbox's files are held already");
        return;
    }
    h = xnew(struct sandbox_quiesce);
    *h = (struct sandbox_quiesce){ .sandbox = sandbox, .client = client, .quiesce_tag = request->tag, .wake_fd = -1 };
    h->plain = sandbox->plain;
    h->fence = h->plain ? NULL : fence_server_fence(sandbox->fence_server);
    h->wait_ms = request->quiesce.wait_ms < WAIT_MS_MAX ? request->quiesce.wait_ms : WAIT_MS_MAX;
    h->limit_ms = request->quiesce.limit_ms;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    r = sandbox_quiesce_start(h);
    if (r < 0) {
        err_errno(&err, r, "holding the sandbox's files");
        client_error(client, request->tag, &err);
        sandbox_quiesce_free(h);
        return;
    }
    sandbox->quiesce = h;
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

static void add_revert(struct sandbox_quiesce *h, const char *path, int take_fd)
{
    vec_room(&h->reverts, &h->cap, h->count);
    h->reverts[h->count++] = (struct quiesce_revert){ xdup(path), take_fd };
    h->bytes += strlen(path) + 1;
    h->replacements += take_fd >= 0;
}

/* The thread reads the reverts only once `is_over` is set. */
static void accept_revert(struct sandbox *sandbox, struct client *client, const struct ctl_request *request,
                          struct frame *frame)
{
    struct sandbox_quiesce *h = sandbox->quiesce;
    const struct ctl_paths *paths = &request->revert.paths;
    struct stat st;

    if (!is_owner(sandbox, client)) {
        sandbox_quiesce_reject(client, request->tag, ERR_FAILED_PRECONDITION, "the sandbox's files are not held");
        return;
    }
    /* Only the client itself can change these files: without a fence there is no gate behind which we could. */
    if (h->plain) {
        sandbox_quiesce_reject(client, request->tag, ERR_FAILED_PRECONDITION,
                               "nothing can leave the changes of a sandbox without a fence");
        return;
    }
    if (h->count + paths->count > CTL_REVERTS_MAX || h->bytes + paths->len > CTL_REVERTS_BYTES_MAX ||
        h->replacements + request->revert.replaces > CTL_REPLACEMENTS_MAX) {
        sandbox_quiesce_reject(client, request->tag, ERR_RESOURCE_EXHAUSTED, "too many paths at once");
        return;
    }
    /* Reading a pipe would block the fence. */
    if (request->revert.replaces && (fstat(frame->fds[0], &st) < 0 || !S_ISREG(st.st_mode))) {
        sandbox_quiesce_reject(client, request->tag, ERR_INVALID_ARGUMENT,
                               "content to replace a file's must be a regular file");
        return;
    }
    for (const char *path = NULL; (path = ctl_paths_next(paths, path));)
        add_revert(h, path, request->revert.replaces ? frame_take_fd(frame, 0) : -1);
    reply_ok(client, request->tag);
}

static void accept_release(struct sandbox *sandbox, struct client *client, const struct ctl_request *request)
{
    if (!is_owner(sandbox, client) || !end_quiesce(sandbox->quiesce, true)) {
        sandbox_quiesce_reject(client, request->tag, ERR_FAILED_PRECONDITION,
                               "the sandbox's files are not held, or not any more");
        return;
    }
    sandbox->quiesce->release_tag = request->tag;
}

void sandbox_quiesce_request(struct sandbox *sandbox, struct client *client, const struct ctl_request *request,
                             struct frame *frame)
{
    if (request->type == CTL_REQUEST_QUIESCE)
        accept_quiesce(sandbox, client, request);
    else if (request->type == CTL_REQUEST_REVERT)
        accept_revert(sandbox, client, request, frame);
    else
        accept_release(sandbox, client, request);
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
