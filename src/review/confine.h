/*
 * Work that a library does with paths of a stranger, in a thread that reaches nothing but some directories: the kernel refuses the rest
 * (Landlock), whatever links and names are exchanged meanwhile. Where the kernel cannot (before 5.19, or switched off), the work is done
 * without; whoever calls has checked what can be checked before.
 */
#pragma once

#include "base/err.h"

struct confine_bounds {
    const char *const *roots; /* as in base/root_dir.h; NULL: it is not confined */
    int read_fd;              /* -1, or a directory that is read, too */
};

typedef int (*confine_fn)(void *cookie, struct err *err);

/* What `fn` returns. The thread has no groups but its own, if we are root, and may change its file system identity as it likes. */
int confine_run(const struct confine_bounds *bounds, confine_fn fn, void *cookie, struct err *err);
