/*
 * A pipe that commands write to, read by us. What comes is handed to a sink as long as the sink takes it; a sink that cannot
 * makes the reader pause, and so, once the pipe is full, the command wait.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "supervisor/reactor.h"

#define PIPE_READER_CHUNK 65472 /* CTL_OUTPUT_MAX: one chunk is one frame */

/* Takes all of it, and says whether it can take more now. */
typedef bool (*pipe_reader_fn)(const void *bytes, size_t len, void *cookie);

struct pipe_reader {
    int fd; /* owned, non-blocking; -1: at its end, or closed */
    struct watch watch;
    struct reactor *reactor;
    pipe_reader_fn sink;
    void (*at_end)(void *cookie);
    void *cookie;
};

#define PIPE_READER_NONE ((struct pipe_reader){ .fd = -1 })

/* Makes a pipe, keeps the end to read from and gives the other. */
int pipe_reader_open(struct pipe_reader *reader, struct reactor *reactor, pipe_reader_fn sink, void (*at_end)(void *),
                     void *cookie, int *ret_write_fd);
/* The same of a descriptor that there is already, a terminal's master: taken, also on failure. */
int pipe_reader_adopt(struct pipe_reader *reader, struct reactor *reactor, pipe_reader_fn sink, void (*at_end)(void *),
                      void *cookie, int fd);
void pipe_reader_close(struct pipe_reader *reader);

/* Takes what is in the pipe now, but no more than the sink does. */
void pipe_reader_drain(struct pipe_reader *reader);

/* Takes all that is in the pipe now, whatever the sink says: its end is near. */
void pipe_reader_drain_all(struct pipe_reader *reader);

/* The sink takes again. */
void pipe_reader_resume(struct pipe_reader *reader);
bool pipe_reader_is_paused(const struct pipe_reader *reader);
