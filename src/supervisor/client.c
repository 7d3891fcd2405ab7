#include "supervisor/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "supervisor/process.h"
#include "supervisor/request.h"
#include "supervisor/sandbox.h"
#include "supervisor/sandbox_quiesce.h"

#define REQUESTS_PER_TURN 32

/* A reply that could not be sent at once. */
struct client_reply {
    struct client_reply *next;
    struct frame frame; /* its payload and descriptor are owned */
    char payload[];
};

static void reply_free(struct client_reply *reply)
{
    if (reply->frame.fd_count)
        close(reply->frame.fds[0]);
    free(reply);
}

static void client_on_free_timer(void *cookie)
{
    client_free(cookie);
}

static void client_disconnect(struct client *client)
{
    if (client->is_broken)
        return;
    client->is_broken = true;
    watch_stop(&client->watch);
    timer_start(&client->free_timer, &client->sandbox->reactor, 0, client_on_free_timer, client);
}

static void set_blocked(struct client *client, bool on)
{
    client->is_blocked = on;
    watch_change(&client->watch, on ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* Returns 0 or -EAGAIN. Frames to a broken client are dropped. */
static int send_frame(struct client *client, const struct frame *frame)
{
    int r = frame_send(client->fd, frame, FRAME_NOWAIT);

    if (r == -EAGAIN || r == -ENOBUFS) {
        set_blocked(client, true);
        return -EAGAIN;
    }
    if (r < 0)
        client_disconnect(client);
    return 0;
}

static void client_enqueue(struct client *client, const struct frame *frame)
{
    struct client_reply *reply = xalloc(sizeof(*reply) + frame->len);

    if (++client->queue_count > CLIENT_QUEUE_MAX) {
        free(reply);
        client_disconnect(client);
        return;
    }
    memcpy(reply->payload, frame->payload, frame->len);
    reply->frame = *frame;
    reply->frame.payload = reply->payload;
    if (frame->fd_count) {
        reply->frame.fds[0] = fcntl(frame->fds[0], F_DUPFD_CLOEXEC, 3);
        reply->frame.fd_count = reply->frame.fds[0] >= 0;
    }
    *client->queue_end = reply;
    client->queue_end = &reply->next;
}

void client_reply(struct client *client, const struct ctl_reply *reply, int fd)
{
    char payload[CTL_PROTO_SMALL_MAX];
    struct frame frame;
    int r;

    if (client->is_broken)
        return;
    r = ctl_reply_encode(reply, payload, sizeof(payload), &frame);
    if (r < 0) {
        log_error("a reply cannot be encoded", LOG_INT("type", reply->type), LOG_ERRNO("error", r));
        return;
    }
    if (fd >= 0) {
        frame.fds[0] = fd;
        frame.fd_count = 1;
    }
    if (client->queue || send_frame(client, &frame) < 0)
        client_enqueue(client, &frame);
}

int client_output(struct client *client, const struct ctl_reply *reply)
{
    static char payload[FRAME_PAYLOAD_MAX];
    struct frame frame;

    if (client->is_broken || client->is_blocked || client->queue)
        return -EAGAIN;
    if (ctl_reply_encode(reply, payload, sizeof(payload), &frame) < 0)
        return 0;
    return send_frame(client, &frame) < 0 || client->is_broken ? -EAGAIN : 0;
}

void client_ok(struct client *client, uint64_t tag)
{
    client_reply(client, &(struct ctl_reply){ .type = CTL_REPLY_OK, .tag = tag }, -1);
}

void client_error(struct client *client, uint64_t tag, const struct err *err)
{
    struct ctl_reply reply = { .type = CTL_REPLY_ERROR, .tag = tag, .error = { .code = err->code } };
    size_t len = strnlen(err->text, sizeof(reply.error.text) - 1);

    memcpy(reply.error.text, err->text, len);
    client_reply(client, &reply, -1);
}

void client_send_events(struct client *client)
{
    struct ctl_reply reply = { .type = CTL_REPLY_EVENT, .tag = client->watch_tag };
    uint64_t number;

    while (client->watches && !client->is_blocked && !client->queue && !client->is_broken &&
           (number = event_log_next(&client->sandbox->event_log, client->watched, &reply.event)) != 0) {
        client->watched = number;
        client_reply(client, &reply, -1);
    }
}

/* Flushing a run may free it and others, so the loop starts again from the head of the list. */
static void flush_runs(struct client *client)
{
    struct sandbox *sandbox = client->sandbox;
    uint64_t turn = ++sandbox->flush_turn;

    for (struct run *run = sandbox->runs; run && !client->is_blocked;) {
        struct run *next = run->next;
        if (run->client == client && run->flush_turn != turn) {
            run->flush_turn = turn;
            run_flush(run);
            next = sandbox->runs;
        }
        run = next;
    }
}

static void client_flush(struct client *client)
{
    set_blocked(client, false);
    while (client->queue) {
        struct client_reply *reply = client->queue;

        if (send_frame(client, &reply->frame) < 0)
            return;
        client->queue = reply->next;
        if (!client->queue)
            client->queue_end = &client->queue;
        client->queue_count--;
        reply_free(reply);
        if (client->is_broken)
            return;
    }
    flush_runs(client);
    client_send_events(client);
}

static void client_receive(struct client *client)
{
    static char payload[FRAME_PAYLOAD_MAX];

    for (int i = 0; i < REQUESTS_PER_TURN && !client->is_broken; i++) {
        struct frame frame = { 0 };
        int r = frame_receive(client->fd, payload, sizeof(payload), FRAME_NOWAIT, &frame);

        if (r == -EAGAIN)
            return;
        if (r == 0)
            r = request_handle(client, &frame);
        if (r < 0) {
            if (r != -ECONNRESET)
                log_warn("a client sent what is no request", LOG_ERRNO("error", r));
            client_disconnect(client);
        }
        frame_close_fds(&frame);
    }
}

static void on_event(uint32_t events, void *cookie)
{
    struct client *client = cookie;

    if (events & EPOLLOUT)
        client_flush(client);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !client->is_broken)
        client_receive(client);
}

static void send_hello(struct client *client)
{
    struct ctl_reply reply = { .type = CTL_REPLY_HELLO,
                               .hello = { .version = CTL_PROTO_VERSION, .state = client->sandbox->state } };

    snprintf(reply.hello.name, sizeof(reply.hello.name), "%s", sandbox_id(client->sandbox));
    client_reply(client, &reply, -1);
}

int client_new(struct sandbox *sandbox, int fd, struct client **ret)
{
    struct client *client = xnew(struct client);
    int r;

    client->sandbox = sandbox;
    client->fd = fd;
    client->queue_end = &client->queue;
    r = watch_start(&client->watch, &sandbox->reactor, fd, EPOLLIN, on_event, client);
    if (r < 0) {
        free(client);
        return r;
    }
    list_add(&sandbox->clients, client);
    sandbox->client_count++;
    send_hello(client);
    *ret = client;
    return 0;
}

static void lose_runs(struct client *client)
{
    struct sandbox *sandbox = client->sandbox;

    for (struct run *run = sandbox->runs; run;) {
        struct run *next = run->next;
        if (run->client == client) {
            run_lose_client(run);
            next = sandbox->runs;
        }
        run = next;
    }
}

void client_free(struct client *client)
{
    struct sandbox *sandbox = client->sandbox;

    client->is_broken = true;
    timer_stop(&client->free_timer);
    watch_stop(&client->watch);
    lose_runs(client);
    shell_lose_client(sandbox, client);
    process_lose_client(sandbox, client);
    job_queue_lose_client(&sandbox->syncs, client);
    sandbox_quiesce_lose_client(sandbox, client);
    job_queue_lose_client(&sandbox->file_ops, client);
    while (client->queue) {
        struct client_reply *reply = client->queue;
        client->queue = reply->next;
        reply_free(reply);
    }
    close(client->fd);
    list_remove(client);
    sandbox->client_count--;
    if (sandbox->owner == client) {
        sandbox->owner = NULL;
        sandbox_stop(sandbox, 0);
    }
    free(client);
}
