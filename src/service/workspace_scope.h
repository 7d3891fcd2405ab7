/*
 * Which directory a workspace is over, and what of it it has for itself: paths from a request, made absolute, free of symlinks, and
 * checked against what may be.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "service/caller.h"

/* All owned. */
struct workspace_scope {
    char *project_root, *scope_path;
    char **reserved_paths; /* ended by NULL; none is beneath another */
};

struct workspace_scope_request {
    const char *project_root;    /* not "" */
    const char *scope_path;      /* "": the root; relative ones count from it */
    const char *const *reserved; /* ended by NULL, or NULL: the scope */
    bool no_lock;                /* nothing is reserved */
    const char *state_path;      /* ours: neither above nor beneath it */
};

/* ERR_INVALID_ARGUMENT; ERR_PERMISSION_DENIED for what is outside of the caller's allowed roots, ROOT_NOT_ALLOWED. */
int workspace_scope_resolve(const struct workspace_scope_request *request, const struct caller *caller,
                            struct workspace_scope *ret, struct err *err);
void workspace_scope_done(struct workspace_scope *scope);

/* "/", "/usr" and the like, which nobody's work is in. `path` is clean. */
bool workspace_scope_is_system(const char *path);

/* Whether the caller may have a workspace there. `path` has no symlinks. */
bool workspace_scope_is_allowed(const struct caller *caller, const char *path);
