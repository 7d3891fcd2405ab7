/*
 * Who asks, as authentication found, and whether they still wait for the answer. Borrowed for the call.
 */
#pragma once

#include <stdbool.h>

struct caller {
    const char *owner;                /* whose things these are; "" for an administrator who named nobody */
    bool is_admin;                    /* sees what belongs to others, too */
    int cancel_fd;                    /* readable when nobody waits any more; -1: they always do */
    const char *const *allowed_roots; /* ended by NULL: what they may have live sandboxes over; NULL: anything */
};

/* Whether something of this owner is there for them. What is not theirs does not exist for them. */
bool caller_sees(const struct caller *caller, const char *owner);
