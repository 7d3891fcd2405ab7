/*
 * A connection to the control socket. It reads requests (wire/ctl_proto.h) and sends replies as fast as the client reads them.
 *
 * A client that sends an invalid request, or lets CLIENT_QUEUE_MAX replies wait, is disconnected. A broken client is freed only
 * in the reactor's next turn, because callers may still use it; until then it reads nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "supervisor/reactor.h"
#include "wire/ctl_proto.h"

#define CLIENT_QUEUE_MAX 1024
#define CLIENTS_MAX 256

struct client_reply;
struct sandbox;

struct client {
    struct sandbox *sandbox;
    struct client *next, **slot;
    int fd; /* owned */
    struct watch watch;
    struct timer free_timer;
    bool is_broken, is_blocked;
    bool watches; /* has subscribed to events */
    uint64_t watch_tag;
    uint64_t watched;                        /* number of the last event sent to it */
    struct client_reply *queue, **queue_end; /* owned */
    unsigned queue_count;
};

/* Takes the socket and sends HELLO. */
int client_new(struct sandbox *sandbox, int fd, struct client **ret);
void client_free(struct client *client); /* also detaches its runs */

/* Sends the reply, or queues it until it can be sent. `fd` is borrowed and sent along; -1: none. */
void client_reply(struct client *client, const struct ctl_reply *reply, int fd);

/* Sends OUTPUT. -EAGAIN if that is not possible now: run_flush() is called when it is, or run_lose_client() if the client
 * goes. */
int client_output(struct client *client, const struct ctl_reply *reply);

void client_ok(struct client *client, uint64_t tag);
void client_error(struct client *client, uint64_t tag, const struct err *err);

/* Sends the events that were logged since the last call. */
void client_send_events(struct client *client);
