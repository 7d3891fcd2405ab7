/*
 * A connection to the control socket: takes requests (wire/ctl_proto.h), and sends replies as fast as they are read.
 *
 * A client that sends what is no request, or lets CLIENT_QUEUE_MAX replies wait, is cut off. Nothing here frees a client while
 * somebody may still use it: a broken one stays, deaf, until the reactor's next turn.
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
    bool watches; /* wants events */
    uint64_t watch_tag;
    uint64_t watched;                        /* number of the last event it got */
    struct client_reply *queue, **queue_end; /* owned */
    unsigned queue_count;
};

/* Takes the socket, says HELLO. */
int client_new(struct sandbox *sandbox, int fd, struct client **ret);
void client_free(struct client *client); /* and lets go of its runs */

/* Sends, or keeps it until it can be sent. `fd`, borrowed, goes along; -1: none. */
void client_reply(struct client *client, const struct ctl_reply *reply, int fd);

/* OUTPUT: -EAGAIN when it cannot be sent now; run_flush() is called when it can, or run_lose_client() when it never will. */
int client_output(struct client *client, const struct ctl_reply *reply);

void client_error(struct client *client, uint64_t tag, const struct err *err);

/* New events are there. */
void client_send_events(struct client *client);
