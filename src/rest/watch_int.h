/* What the two files of a watch share: watch.c times and watches, watch_accept.c accepts. */
#pragma once

#include "rest/watch.h"

#define WATCH_LISTENERS_MAX 16

struct gate {
    int fd; /* borrowed */
    bool with_tls;
};

struct watch {
    struct watch_options options;
    pthread_t thread;
    bool is_running;
    int epoll_fd, timer_fd, wake_fd, reserve_fd;
    struct gate gates[WATCH_LISTENERS_MAX];
    size_t gate_count;

    pthread_mutex_t timer_lock; /* the innermost lock of the room */
    int64_t armed_ns;

    pthread_mutex_t lock;
    struct line *lines; /* those that are open; each holds a reference */
    struct line *dead;  /* closed, but perhaps still named by an event that is being looked at */
    size_t dead_count, count;
    struct line **by_fd;
    size_t by_fd_cap;
    uint64_t refused;
    bool is_ending, is_closed_to_new, is_full, is_starved;
};

int watch_epoll_add(struct watch *watch, int fd, uint32_t events, void *what);

/* With the lock held. A line that could not be added stays the caller's; one that is removed is freed by the watch's thread. */
int watch_add_line(struct watch *watch, struct line *line);
void watch_remove_line(struct watch *watch, struct line *line);

/* With the lock held: whether more may come has perhaps changed. */
void watch_update_gates(struct watch *watch);

void watch_accept_from(struct watch *watch, const struct gate *gate);
