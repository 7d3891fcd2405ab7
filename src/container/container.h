/*
 * The life of one container, from the order to its end:
 *
 *     sweep ──▶ image ──▶ init socket ──▶ create ──▶ start ──▶ init comes ──▶ watch ──▶ remove
 *
 * After any failure, and whenever it is told to stop, it continues with the last step and leaves nothing behind.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "runtime/docker_order.h"

struct container_ends {
    int init_fd;   /* owned: for init */
    int report_fd; /* borrowed */
    int stop_fd;   /* borrowed; readable: remove the container */
    pid_t parent;  /* our supervisor: it is dead if it is not our parent any more */
};

/* Returns when the container is gone. -ECANCELED: it was told to stop before the container ran. */
int container_run(struct docker_order *order, struct container_ends *ends, struct err *err);
