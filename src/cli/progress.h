/* How far a long transfer is, on one line of standard error: for people at a terminal, and nobody else. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* borrowed; "uploading" */
    bool is_shown;
    int64_t drawn_ns; /* 0: not yet */
    bool is_drawn;
};

/* `is_wanted` is false with --json and -q. */
void progress_init(struct progress *progress, const char *what, bool is_wanted);

/* `total` 0: nobody knows. Drawn a few times a second, and not at all for what is over at once. */
void progress_update(struct progress *progress, uint64_t done, uint64_t total);

/* Takes the line away. */
void progress_done(struct progress *progress);
