/*
 * The list behind bwrap_args.h. Most of it is performed by bwrap, which is told it in order; what is staged is performed by us,
 * before it (runtime/stage.h), and bwrap never hears of it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/proc.h"

/* One option: [--perms P] [--size N] option [fd] [first] [second]. */
struct bwrap_op {
    const char *option;
    int perms; /* -1: none */
    uint64_t size_bytes;
    int fd;               /* number in bwrap; -1: none */
    char *first, *second; /* owned */
    struct buf text;      /* what is in a file that is staged */
    int source_fd;        /* owned; what is bound, as it was looked up, when we bind it ourselves; -1: not held */
    bool is_staged;
};

struct bwrap_args {
    const char *root; /* borrowed while it is made */
    struct bwrap_op *ops;
    size_t count, cap;
    struct proc_fd *fds; /* each .fd is owned */
    size_t fd_count, fd_cap;
    bool is_staging; /* what is added now is not for bwrap */
};
