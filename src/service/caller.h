/*
 * Who asks, as authentication found, and whether they still wait for the answer. Borrowed for the call.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct caller {
    const char *owner; /* whose things these are; "" for an administrator who named nobody */
    bool has_uid;      /* the user of this host at the other end is known; neither this nor an owner: we ourselves */
    uid_t uid;
    bool is_admin;                    /* sees what belongs to others, too */
    int cancel_fd;                    /* readable when nobody waits any more; -1: they always do */
    const char *const *allowed_roots; /* ended by NULL: what they may have live sandboxes over; NULL: anything */
};

#define CALLER_SYSTEM "system"

extern const struct caller caller_system;

/* Who this is, as it was found out and not as they say: the owner of the token, or the user's name; CALLER_SYSTEM: we ourselves. Free it. */
char *caller_name(const struct caller *caller);

/* Whether something of this owner is there for them. What is not theirs does not exist for them. */
bool caller_sees(const struct caller *caller, const char *owner);
