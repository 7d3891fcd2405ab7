/*
 * Runs a library's work on untrusted paths in a thread that can reach only some directories: the kernel refuses all others
 * (Landlock), even if links and names are exchanged meanwhile. On a kernel without it (before 5.19, or disabled) the work runs
 * unconfined, so the caller first checks what it can.
 */
#pragma once

#include "base/err.h"

struct confine_bounds {
    const char *const *roots; /* as in base/root_dir.h; NULL: not confined */
    int read_fd;              /* -1, or another directory that may be read */
};

typedef int (*confine_fn)(void *cookie, struct err *err);

/* Returns what `fn` returns. The thread has only its own groups, if we are root, and may change its file system identity. */
int confine_run(const struct confine_bounds *bounds, confine_fn fn, void *cookie, struct err *err);
