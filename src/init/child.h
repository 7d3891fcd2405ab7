/*
 * The main process of an exec, from its making until it has become the command.
 */
#pragma once

#include <sys/types.h>

#include "wire/init_proto.h"

struct child {
    const struct init_spawn *spawn; /* borrowed, as all of these */
    struct init_vectors vectors;
    int fds[INIT_SPAWN_FDS_MAX]; /* to become 0, 1, 2, ... */
    size_t fd_count;

    enum init_step step; /* where it failed, when `error` is not 0 */
    int error;
};

/* Returns when the command runs: its pid. Or -errno with `step` and `error` filled, and no process left. */
pid_t child_start(struct child *child);
