#include "cli/start_watch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/output.h"
#include <sandbox/v1/sandbox.pb-c.h>

/* Most starts take less time. */
#define LOOK_AFTER_NS (500 * CLOCK_NS_PER_MS)

struct start_watch {
    struct client *client; /* owned: the thread's own */
    const char *verb, *id; /* borrowed */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool is_over; /* guarded by lock */
};

static bool wait_for_end(struct start_watch *watch)
{
    struct timespec until = clock_timespec_of_ns(clock_now_ns() + LOOK_AFTER_NS);
    int r = 0;

    pthread_mutex_lock(&watch->lock);
    while (!watch->is_over && r == 0)
        r = pthread_cond_timedwait(&watch->over, &watch->lock, &until);
    bool is_over = watch->is_over;
    pthread_mutex_unlock(&watch->lock);
    return is_over;
}

/* The text comes from the server or a runtime such as Docker, so it is escaped. */
static void tell(const struct start_watch *watch, const char *step)
{
    fprintf(stderr, "agentfense %s: ", watch->verb);
    output_escaped(stderr, step);
    fputc('\n', stderr);
}

static void *look(void *cookie)
{
    struct start_watch *watch = cookie;
    Sandbox__V1__GetSandboxRequest request = SANDBOX__V1__GET_SANDBOX_REQUEST__INIT;
    autofree char *told = xdup("");

    request.sandbox_id = (char *) watch->id;
    while (!wait_for_end(watch)) {
        automessage answer = NULL;
        struct err ignored = ERR_NONE;

        if (client_ask(watch->client, "GetSandbox", &request.base, &answer, &ignored) < 0)
            continue;
        const Sandbox__V1__Sandbox *now = (const void *) answer;
        if (now->status != SANDBOX__V1__SANDBOX_STATUS__SANDBOX_STATUS_PENDING || !*now->status_reason ||
            strcmp(now->status_reason, told) == 0)
            continue;
        tell(watch, now->status_reason);
        free(told);
        told = xdup(now->status_reason);
    }
    return NULL;
}

static void end(struct start_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->is_over = true;
    pthread_cond_signal(&watch->over);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
}

int start_watched(struct api_call *call, const char *id, ProtobufCMessage **ret, struct err *err)
{
    Sandbox__V1__StartSandboxRequest request = SANDBOX__V1__START_SANDBOX_REQUEST__INIT;
    struct start_watch watch = { .verb = call->verb->name, .id = id };
    struct err ignored = ERR_NONE;
    pthread_condattr_t attr;
    bool watches;
    int r;

    pthread_mutex_init(&watch.lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&watch.over, &attr);
    pthread_condattr_destroy(&attr);
    /* If the thread cannot start, the sandbox starts without progress messages. */
    watches = !call->options.is_quiet && client_open_twin(call->client, &watch.client, &ignored) == 0 &&
              pthread_create(&watch.thread, NULL, look, &watch) == 0;
    request.sandbox_id = (char *) id;
    r = client_ask(call->client, "StartSandbox", &request.base, ret, err);
    if (watches)
        end(&watch);
    client_close(watch.client);
    pthread_cond_destroy(&watch.over);
    pthread_mutex_destroy(&watch.lock);
    return r;
}
