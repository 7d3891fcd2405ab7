/*
 * The main process of an exec, until it has become the command.
 */
#pragma once

#include <sys/types.h>

#include "wire/init_proto.h"

struct child {
    const struct init_spawn *spawn; /* borrowed, like all of these */
    struct init_vectors vectors;
    int fds[INIT_SPAWN_FDS_MAX]; /* to become 0, 1, 2, ... */
    size_t fd_count;

    enum init_step step; /* the failed step, if `error` is not 0 */
    int error;
};

/* Returns the pid once the command runs. Otherwise returns -errno, with `step` and `error` set and no process left. */
pid_t child_start(struct child *child);
