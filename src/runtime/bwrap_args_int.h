/*
 * The list behind bwrap_args.h. bwrap performs most of it, in order. We perform the staged operations before that
 * (runtime/stage.h), and bwrap does not get them.
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
    int fd;               /* its number in bwrap; -1: none */
    char *first, *second; /* owned */
    struct buf text;      /* content of a staged file */
    int source_fd;        /* owned; source of a bind mount that we make ourselves, opened when it was checked; -1: none */
    bool is_staged;
};

struct bwrap_args {
    const char *root; /* borrowed while the list is made */
    struct bwrap_op *ops;
    size_t count, cap;
    struct proc_fd *fds; /* each .fd is owned */
    size_t fd_count, fd_cap;
    bool is_staging; /* operations added now are not for bwrap */
};
