/*
 * The caller of a request, as authentication identified it, and whether it still waits for the answer. Borrowed for the call.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct caller {
    const char *owner; /* whose objects the caller acts on; "" for an administrator who named no owner */
    bool
        has_uid; /* the peer is a user of this host, and `uid` is known; without this and without an owner, the server itself is the caller */
    uid_t uid;
    bool is_admin;                    /* also sees other owners' objects */
    int cancel_fd;                    /* readable when the caller no longer waits; -1: it always waits */
    const char *const *allowed_roots; /* ended by NULL: where the caller may have live sandboxes; NULL: anywhere */
};

#define CALLER_SYSTEM "system"

extern const struct caller caller_system;

/* Returns the authenticated name, never one that the caller claims: the token's owner, or the user's name; CALLER_SYSTEM for the server
 * itself. Free it. */
char *caller_name(const struct caller *caller);

/* Returns true if the caller may see objects of this owner. For a caller who may not, they do not exist. */
bool caller_sees(const struct caller *caller, const char *owner);
