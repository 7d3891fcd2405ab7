/*
 * The directory that a workspace is over, and which paths in it are reserved: takes paths from a request, makes them absolute and free of
 * symlinks, and checks them against what is allowed.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "service/caller.h"

/* All owned. */
struct sandbox_scope {
    char *project_root, *scope_path;
    char **reserved_paths; /* ended by NULL; none is beneath another */
    int scope_fd;          /* the directory that was checked; another may have its name as soon as this returns */
};

#define SANDBOX_SCOPE_NONE ((struct sandbox_scope){ .scope_fd = -1 })

struct sandbox_scope_request {
    const char *project_root;    /* not "" */
    const char *scope_path;      /* "": the root; a relative path starts at the root */
    const char *const *reserved; /* ended by NULL; NULL: the scope */
    bool no_lock;                /* reserve nothing */
    const char *state_path;      /* our state directory: refused with everything above and beneath it */
};

/* ERR_INVALID_ARGUMENT. ERR_PERMISSION_DENIED, ROOT_NOT_ALLOWED for a path outside of the caller's allowed roots, before any other check,
 * so the error reveals nothing about it. */
int sandbox_scope_resolve(const struct sandbox_scope_request *request, const struct caller *caller, struct sandbox_scope *ret,
                          struct err *err);
void sandbox_scope_done(struct sandbox_scope *scope);

/* Returns true for "/", "/usr" and the like, which contain nobody's work. `path` is clean. */
bool sandbox_scope_is_system(const char *path);

/* Opens a clean, absolute path, and returns the kernel's name for it. -EPERM: it is outside of the caller's roots or leads out of them;
 * nothing outside was looked at. A caller without roots (NULL) reaches everything. */
int sandbox_scope_reach(const struct caller *caller, const char *path, int flags, int *ret_fd, char **ret_path);

/* Sets the error for -EPERM: the same text, whatever exists there. */
int sandbox_scope_refuse(const char *path, struct err *err);
