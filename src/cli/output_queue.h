/*
 * What is to be written to our standard output and error, in its order, as they take it: nobody waits in a write while there is something else
 * to hear.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct output_queue {
    struct output_queue_piece {
        int fd;
        struct buf bytes;
    } * pieces; /* owned */
    size_t count, cap, at;
};

void output_queue_add(struct output_queue *outflow, int fd, const void *bytes, size_t len);
void output_queue_done(struct output_queue *outflow);

/* Where the next bytes go, to be polled for POLLOUT; -1: there are none. */
int output_queue_fd(const struct output_queue *outflow);

/* Writes what there is room for, now that poll(2) said so. */
int output_queue_write(struct output_queue *outflow);
