/*
 * Output queued for our standard output and standard error, in order, so that a slow reader does not block the other descriptors we serve.
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

/* Returns the descriptor for the next bytes, to poll for POLLOUT, or -1 if the queue is empty. */
int output_queue_fd(const struct output_queue *outflow);

/* Writes as much as fits. Call it after poll(2) reported POLLOUT. */
int output_queue_write(struct output_queue *outflow);
