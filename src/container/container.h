/*
 * One container's life, from the order to its end:
 *
 *     sweep ──▶ image ──▶ init socket ──▶ create ──▶ start ──▶ init comes ──▶ watch ──▶ remove
 *
 * Whatever goes wrong, and whenever it is told to stop, it goes on with the last step: nothing of it is left.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "runtime/docker_order.h"

struct container_ends {
    int init_fd;   /* owned: for init */
    int report_fd; /* borrowed */
    int stop_fd;   /* borrowed; readable: remove it */
    pid_t parent;  /* our supervisor; when it is not our parent any more, it is dead */
};

/* Returns when the container is gone. -ECANCELED: it was told to stop before there was one that runs. */
int container_run(struct docker_order *order, struct container_ends *ends, struct err *err);
