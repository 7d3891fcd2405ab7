/* Inside the module: a request to one of the server's routes, answered by its handler in this process. */
#pragma once

#include "call/web.h"
#include "client/client_int.h"

struct own_pairs {
    struct web_pair *items; /* owned */
    size_t count, cap;
};

struct own_web {
    struct web web;   /* first */
    struct call call; /* what the handler asks of who calls */
    int cancel_fd;    /* borrowed */
    struct embedded *embedded;
    const struct client_web *wanted; /* borrowed, as is `answer` */
    struct buf *answer;
    char *body; /* owned */
    struct own_pairs captures, queries;
    struct err failure; /* of a callback */
    int failed;
    /* NULL: it cannot become a WebSocket. */
    int (*on_upgrade)(struct own_web *own, struct web_socket *ret, struct err *err);
    void (*on_hang_up)(struct own_web *own);
};

/* Finds the route; web.route->run() is the handler then. own_web_done() also after a failure. */
int own_web_init(struct own_web *own, struct embedded *embedded, const struct client_web *wanted, struct buf *answer,
                 struct err *err);
void own_web_done(struct own_web *own);

/* The handler has returned: what it answered, or why there is no answer. */
int own_web_end(struct own_web *own, int *ret_status, struct err *err);
