/* Shows the progress of a long transfer on one line of standard error, but only if that is a terminal. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* borrowed; "uploading" */
    bool is_shown;
    int64_t drawn_ns; /* 0: not drawn yet */
    bool is_drawn;
};

/* `is_wanted` is false with --json and -q. */
void progress_init(struct progress *progress, const char *what, bool is_wanted);

/* `total` is 0 if unknown. Draws a few times a second, and nothing for a short transfer. */
void progress_update(struct progress *progress, uint64_t done, uint64_t total);

/* Removes the line. */
void progress_done(struct progress *progress);
