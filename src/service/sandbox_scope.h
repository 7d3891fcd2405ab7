/*
 * Which directory a workspace is over, and what of it it has for itself: paths from a request, made absolute, free of symlinks, and
 * checked against what may be.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "service/caller.h"

/* All owned. */
struct sandbox_scope {
    char *project_root, *scope_path;
    char **reserved_paths; /* ended by NULL; none is beneath another */
    int scope_fd;          /* the very directory that was checked; its name may lead elsewhere as soon as this returns */
};

#define SANDBOX_SCOPE_NONE ((struct sandbox_scope){ .scope_fd = -1 })

struct sandbox_scope_request {
    const char *project_root;    /* not "" */
    const char *scope_path;      /* "": the root; relative ones count from it */
    const char *const *reserved; /* ended by NULL, or NULL: the scope */
    bool no_lock;                /* nothing is reserved */
    const char *state_path;      /* ours: neither above nor beneath it */
};

/* ERR_INVALID_ARGUMENT; ERR_PERMISSION_DENIED, ROOT_NOT_ALLOWED for what is outside of the caller's allowed roots, before anything else is
 * said about it. */
int sandbox_scope_resolve(const struct sandbox_scope_request *request, const struct caller *caller, struct sandbox_scope *ret,
                          struct err *err);
void sandbox_scope_done(struct sandbox_scope *scope);

/* "/", "/usr" and the like, which nobody's work is in. `path` is clean. */
bool sandbox_scope_is_system(const char *path);

/* Opens a clean, absolute path, and tells how the kernel calls it. -EPERM: it is not in the caller's roots, or leads out of them; nothing
 * outside of them was looked at. Who has no roots (NULL) reaches everything. */
int sandbox_scope_reach(const struct caller *caller, const char *path, int flags, int *ret_fd, char **ret_path);

/* What is said to that: the same words, whatever is there. */
int sandbox_scope_refuse(const char *path, struct err *err);
