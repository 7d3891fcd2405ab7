/*
 * What is to be written to our standard output and error, in its order, as they take it: nobody waits in a write while there is something else
 * to hear.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct outflow {
    struct outflow_piece {
        int fd;
        struct buf bytes;
    } * pieces; /* owned */
    size_t count, cap, at;
};

void outflow_add(struct outflow *outflow, int fd, const void *bytes, size_t len);
void outflow_done(struct outflow *outflow);

/* Where the next bytes go, to be polled for POLLOUT; -1: there are none. */
int outflow_fd(const struct outflow *outflow);

/* Writes what there is room for, now that poll(2) said so. */
int outflow_write(struct outflow *outflow);
