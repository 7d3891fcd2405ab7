#include "supervisor/holding.h"

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

#define WAIT_MS_MAX 10000 /* a sandbox that ends waits for a hold that begins */

struct holding_drop {
    char *path; /* owned */
    int fd;     /* owned; -1: none */
};

struct holding {
    struct sandbox *sandbox;
    struct client *client; /* borrowed; NULL: gone. The reactor's, as all that is not said to be the thread's */
    uint64_t hold_tag, release_tag;
    bool is_told; /* the client knows that it holds */
    pthread_t thread;
    int wake_fd; /* owned */
    struct watch watch;
    struct holding_drop *drops; /* owned; the thread's from `is_over` on */
    size_t count, cap, bytes, replacements;

    /* const for the thread */
    struct fence *fence; /* or */
    struct plain *plain;
    uint32_t wait_ms, limit_ms;

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    bool is_held;
    bool is_over;   /* released, given up, or out of time: nothing may be added any more */
    bool drops_all; /* released: the drops count */
    bool has_ended; /* the thread has nothing more to say */
    int r;
    struct err err;
};

/* ---- in the thread ---- */

static void wake(struct holding *h)
{
    uint64_t one = 1;

    if (write(h->wake_fd, &one, sizeof(one)) < 0)
        log_error("a hold changed and nobody hears of it", LOG_ERRNO("error", -errno));
}

/* Until it is released, or its time is over. */
static bool stand_still(struct holding *h)
{
    struct timespec until = clock_timespec_of_ns(clock_now_ns() + h->limit_ms * CLOCK_NS_PER_MS);
    bool drops_all;

    pthread_mutex_lock(&h->lock);
    h->is_held = true;
    wake(h);
    while (!h->is_over && pthread_cond_clockwait(&h->changed, &h->lock, CLOCK_MONOTONIC, &until) == 0)
        continue;
    h->is_over = true;
    drops_all = h->drops_all;
    pthread_mutex_unlock(&h->lock);
    return drops_all;
}

static int let_go(struct holding *h, struct fence_quiesced *hold, bool drops_all, struct err *err)
{
    size_t count = drops_all ? h->count : 0;
    autofree struct fence_revert *drops = xalloc((count + 1) * sizeof(*drops));

    for (size_t i = 0; i < count; i++)
        drops[i] = (struct fence_revert){ h->drops[i].path, h->drops[i].fd };
    return fence_resume(hold, drops, count, err);
}

static int hold_fence(struct holding *h, struct err *err)
{
    struct fence_quiesced *hold;
    int r = fence_quiesce(h->fence, (int) h->wait_ms, &hold, err);

    return r < 0 ? r : let_go(h, hold, stand_still(h), err);
}

static int hold_plain(struct holding *h, struct err *err)
{
    int r = plain_hold(h->plain, h->wait_ms, err);

    if (r < 0)
        return r;
    stand_still(h);
    plain_release(h->plain);
    return 0;
}

static void *work(void *cookie)
{
    struct holding *h = cookie;
    struct err err = ERR_NONE;
    int r = h->plain ? hold_plain(h, &err) : hold_fence(h, &err);

    pthread_mutex_lock(&h->lock);
    h->is_over = h->has_ended = true;
    h->r = r;
    h->err = err;
    pthread_mutex_unlock(&h->lock);
    wake(h);
    return NULL;
}

/* ---- its end ---- */

static void refuse(struct client *client, uint64_t tag, enum err_code code, const char *why)
{
    struct err err = ERR_NONE;

    err_set(&err, code, -EBUSY, "%s", why);
    client_error(client, tag, &err);
}

static void reply_ok(struct client *client, uint64_t tag)
{
    client_reply(client, &(struct ctl_reply){ .type = CTL_REPLY_OK, .tag = tag }, -1);
}

static void holding_free(struct holding *h)
{
    watch_stop(&h->watch);
    if (h->wake_fd >= 0)
        close(h->wake_fd);
    for (size_t i = 0; i < h->count; i++) {
        free(h->drops[i].path);
        if (h->drops[i].fd >= 0)
            close(h->drops[i].fd);
    }
    free(h->drops);
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->changed);
    free(h);
}

/* A holder whose time was over hears of it when he releases. */
static void tell_end(struct holding *h)
{
    if (!h->client)
        return;
    if (h->r < 0 && !h->is_told)
        client_error(h->client, h->hold_tag, &h->err);
    else if (!h->is_told)
        refuse(h->client, h->hold_tag, ERR_ABORTED, "the sandbox is ending");
    else if (h->release_tag && h->r < 0)
        client_error(h->client, h->release_tag, &h->err);
    else if (h->release_tag)
        reply_ok(h->client, h->release_tag);
    else
        log_warn("a hold ended because its time was over");
}

static void finish(struct sandbox *sandbox)
{
    struct holding *h = steal_ptr(&sandbox->holding);

    pthread_join(h->thread, NULL);
    tell_end(h);
    holding_free(h);
}

static void on_wake(uint32_t events, void *cookie)
{
    struct holding *h = cookie;
    bool is_held, has_ended;
    uint64_t count;

    (void) events;
    if (read(h->wake_fd, &count, sizeof(count)) < 0)
        return;
    pthread_mutex_lock(&h->lock);
    is_held = h->is_held;
    has_ended = h->has_ended;
    pthread_mutex_unlock(&h->lock);
    if (is_held && !h->is_told) {
        h->is_told = true;
        if (h->client)
            reply_ok(h->client, h->hold_tag);
    }
    if (has_ended)
        finish(h->sandbox);
}

/* True: the drops will be done. */
static bool end_it(struct holding *h, bool drops_all)
{
    bool was_over;

    pthread_mutex_lock(&h->lock);
    was_over = h->is_over;
    if (!was_over) {
        h->is_over = true;
        h->drops_all = drops_all;
        pthread_cond_signal(&h->changed);
    }
    pthread_mutex_unlock(&h->lock);
    return !was_over;
}

/* ---- what is asked for ---- */

static int start(struct holding *h)
{
    int r;

    h->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->wake_fd < 0)
        return -errno;
    r = watch_start(&h->watch, &h->sandbox->reactor, h->wake_fd, EPOLLIN, on_wake, h);
    return r < 0 ? r : -pthread_create(&h->thread, NULL, work, h);
}

static void take_hold(struct sandbox *sandbox, struct client *client, const struct ctl_request *request)
{
    struct holding *h;
    struct err err = ERR_NONE;
    int r;

    if (sandbox->state != CTL_STATE_RUNNING) {
        refuse(client, request->tag, ERR_FAILED_PRECONDITION, "the sandbox is not running");
        return;
    }
    if (sandbox->holding) {
        refuse(client, request->tag, ERR_FAILED_PRECONDITION, "the sandbox's files are held already");
        return;
    }
    h = xnew(struct holding);
    *h = (struct holding){ .sandbox = sandbox, .client = client, .hold_tag = request->tag, .wake_fd = -1 };
    h->plain = sandbox->plain;
    h->fence = h->plain ? NULL : fencing_fence(sandbox->fencing);
    h->wait_ms = request->hold.wait_ms < WAIT_MS_MAX ? request->hold.wait_ms : WAIT_MS_MAX;
    h->limit_ms = request->hold.limit_ms;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    r = start(h);
    if (r < 0) {
        err_errno(&err, r, "holding the sandbox's files");
        client_error(client, request->tag, &err);
        holding_free(h);
        return;
    }
    sandbox->holding = h;
}

static bool is_holder(const struct sandbox *sandbox, const struct client *client)
{
    struct holding *h = sandbox->holding;
    bool is_over;

    if (!h || h->client != client || !h->is_told || h->release_tag)
        return false;
    pthread_mutex_lock(&h->lock);
    is_over = h->is_over;
    pthread_mutex_unlock(&h->lock);
    return !is_over;
}

static void add_drop(struct holding *h, const char *path, int take_fd)
{
    vec_room(&h->drops, &h->cap, h->count);
    h->drops[h->count++] = (struct holding_drop){ xdup(path), take_fd };
    h->bytes += strlen(path) + 1;
    h->replacements += take_fd >= 0;
}

/* The thread looks at them only when it is over. */
static void take_drop(struct sandbox *sandbox, struct client *client, const struct ctl_request *request, struct frame *frame)
{
    struct holding *h = sandbox->holding;
    const struct ctl_paths *paths = &request->drop.paths;
    struct stat st;

    if (!is_holder(sandbox, client)) {
        refuse(client, request->tag, ERR_FAILED_PRECONDITION, "the sandbox's files are not held");
        return;
    }
    /* What it has is changed by who holds it, or not at all: there is no gate behind which we could. */
    if (h->plain) {
        refuse(client, request->tag, ERR_FAILED_PRECONDITION, "nothing can leave the changes of a sandbox without a fence");
        return;
    }
    if (h->count + paths->count > CTL_DROPS_MAX || h->bytes + paths->len > CTL_DROPS_BYTES_MAX ||
        h->replacements + request->drop.replaces > CTL_REPLACEMENTS_MAX) {
        refuse(client, request->tag, ERR_RESOURCE_EXHAUSTED, "too many paths at once");
        return;
    }
    /* A pipe would make the fence wait for its writer. */
    if (request->drop.replaces && (fstat(frame->fds[0], &st) < 0 || !S_ISREG(st.st_mode))) {
        refuse(client, request->tag, ERR_INVALID_ARGUMENT, "content to replace a file's must be a regular file");
        return;
    }
    for (const char *path = NULL; (path = ctl_paths_next(paths, path));)
        add_drop(h, path, request->drop.replaces ? frame_take_fd(frame, 0) : -1);
    reply_ok(client, request->tag);
}

static void take_release(struct sandbox *sandbox, struct client *client, const struct ctl_request *request)
{
    if (!is_holder(sandbox, client) || !end_it(sandbox->holding, true)) {
        refuse(client, request->tag, ERR_FAILED_PRECONDITION, "the sandbox's files are not held, or not any more");
        return;
    }
    sandbox->holding->release_tag = request->tag;
}

void holding_ask(struct sandbox *sandbox, struct client *client, const struct ctl_request *request, struct frame *frame)
{
    if (request->type == CTL_REQUEST_HOLD)
        take_hold(sandbox, client, request);
    else if (request->type == CTL_REQUEST_DROP)
        take_drop(sandbox, client, request, frame);
    else
        take_release(sandbox, client, request);
}

void holding_lose_client(struct sandbox *sandbox, const struct client *client)
{
    struct holding *h = sandbox->holding;

    if (!h || h->client != client)
        return;
    h->client = NULL;
    end_it(h, false);
}

void holding_give_up(struct sandbox *sandbox)
{
    if (sandbox->holding)
        end_it(sandbox->holding, false);
}

void holding_stop(struct sandbox *sandbox)
{
    if (!sandbox->holding)
        return;
    holding_give_up(sandbox);
    finish(sandbox);
}

bool holding_is_on(const struct sandbox *sandbox)
{
    return sandbox->holding != NULL;
}
