/*
 * A pipe that commands write to, read by us. What comes is handed to a sink as long as the sink takes it; a sink that cannot
 * makes the tap pause, and so, once the pipe is full, the command wait.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "supervisor/reactor.h"

#define TAP_CHUNK 65472 /* CTL_OUTPUT_MAX: one chunk is one frame */

/* Takes all of it, and says whether it can take more now. */
typedef bool (*tap_fn)(const void *bytes, size_t len, void *cookie);

struct tap {
    int fd; /* owned, non-blocking; -1: at its end, or closed */
    struct watch watch;
    struct reactor *reactor;
    tap_fn sink;
    void (*at_end)(void *cookie);
    void *cookie;
};

#define TAP_NONE ((struct tap){ .fd = -1 })

/* Makes a pipe, keeps the end to read from and gives the other. */
int tap_open(struct tap *tap, struct reactor *reactor, tap_fn sink, void (*at_end)(void *), void *cookie, int *ret_write_fd);
/* The same of a descriptor that there is already, a terminal's master: taken, also on failure. */
int tap_adopt(struct tap *tap, struct reactor *reactor, tap_fn sink, void (*at_end)(void *), void *cookie, int fd);
void tap_close(struct tap *tap);

/* Takes what is in the pipe now, but no more than the sink does. */
void tap_drain(struct tap *tap);

/* Takes all that is in the pipe now, whatever the sink says: its end is near. */
void tap_empty(struct tap *tap);

/* The sink takes again. */
void tap_resume(struct tap *tap);
bool tap_is_paused(const struct tap *tap);
