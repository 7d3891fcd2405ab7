/*
 * Merges two sides' changes of a common base, by libgit2 on buffers. If both changed the same lines in different ways, that is
 * a conflict, reported hunk by hunk and as text with markers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum threeway_favor {
    THREEWAY_NONE,    /* a conflict stays a conflict */
    THREEWAY_PROJECT, /* where both changed the same lines, the project's win */
    THREEWAY_AGENT,
};

/* Lines that both changed. The texts are whole lines, exact bytes. */
struct threeway_hunk {
    uint32_t line; /* in the text with markers, from 1: the line of the marker */
    struct buf project, base, agent;
};

struct threeway {
    bool is_clean;
    struct buf bytes;            /* the result; of a conflict, with markers */
    struct threeway_hunk *hunks; /* owned */
    size_t hunk_count, hunk_cap;
};

#define THREEWAY_EMPTY ((struct threeway){ .is_clean = false })

/* `err` also reports a text that is too large for the library. */
int threeway_make(const struct buf *base, const struct buf *project, const struct buf *agent, enum threeway_favor favor,
                  struct threeway *ret, struct err *err);
void threeway_done(struct threeway *merge);
