/* What the two files of a watch share: conn_watch.c times and watches, conn_watch_accept.c accepts. */
#pragma once

#include "rest/conn_watch.h"

#define CONN_WATCH_LISTENERS_MAX 16

struct watched_listener {
    int fd; /* borrowed */
    bool with_tls;
};

struct conn_watch {
    struct conn_watch_options options;
    pthread_t thread;
    bool is_running;
    int epoll_fd, timer_fd, wake_fd, reserve_fd;
    struct watched_listener listeners[CONN_WATCH_LISTENERS_MAX];
    size_t listener_count;

    pthread_mutex_t timer_lock; /* the innermost lock of the room */
    int64_t armed_ns;

    pthread_mutex_t lock;
    struct http_conn *conns; /* those that are open; each holds a reference */
    struct http_conn *dead;  /* closed, but perhaps still named by an event that is being looked at */
    size_t dead_count, count;
    struct http_conn **by_fd;
    size_t by_fd_cap;
    uint64_t refused;
    bool is_ending, is_closed_to_new, is_full, is_starved;
};

int conn_watch_epoll_add(struct conn_watch *watch, int fd, uint32_t events, void *what);

/* With the lock held. A line that could not be added stays the caller's; one that is removed is freed by the watch's thread. */
int conn_watch_add(struct conn_watch *watch, struct http_conn *conn);
void conn_watch_remove(struct conn_watch *watch, struct http_conn *conn);

/* With the lock held: whether more may come has perhaps changed. */
void conn_watch_update_listeners(struct conn_watch *watch);

void conn_watch_accept_from(struct conn_watch *watch, const struct watched_listener *watched);
