/*
 * Reads a pipe that commands write to and passes the bytes to a sink. If the sink cannot take more, the reader pauses, and once
 * the pipe is full the command waits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "supervisor/reactor.h"

#define PIPE_READER_CHUNK 65472 /* CTL_OUTPUT_MAX: one chunk is one frame */

/* Takes all bytes. Returns whether it can take more now. */
typedef bool (*pipe_reader_fn)(const void *bytes, size_t len, void *cookie);

struct pipe_reader {
    int fd; /* owned, non-blocking; -1: at end of file, or closed */
    struct watch watch;
    struct reactor *reactor;
    pipe_reader_fn sink;
    void (*at_end)(void *cookie);
    void *cookie;
};

#define PIPE_READER_NONE ((struct pipe_reader){ .fd = -1 })

/* Makes a pipe, keeps the read end and returns the write end. */
int pipe_reader_open(struct pipe_reader *reader, struct reactor *reactor, pipe_reader_fn sink, void (*at_end)(void *),
                     void *cookie, int *ret_write_fd);
/* Like pipe_reader_open(), for an existing descriptor such as a terminal's master. Takes it, also on failure. */
int pipe_reader_adopt(struct pipe_reader *reader, struct reactor *reactor, pipe_reader_fn sink, void (*at_end)(void *),
                      void *cookie, int fd);
void pipe_reader_close(struct pipe_reader *reader);

/* Reads what is in the pipe now, until the sink refuses. */
void pipe_reader_drain(struct pipe_reader *reader);

/* Reads everything that is in the pipe now, whatever the sink returns: for a pipe that is about to end. */
void pipe_reader_drain_all(struct pipe_reader *reader);

/* Continues after a pause: the sink can take more. */
void pipe_reader_resume(struct pipe_reader *reader);
bool pipe_reader_is_paused(const struct pipe_reader *reader);
