/*
 * The system calls a sandbox cannot make: a filter for bwrap's --seccomp, compiled from one table that gives each row's reason.
 * That happens when the house is built (seccomp_compile.c).
 *
 * It is the second wall. Without capabilities and with its own namespaces a sandbox may do little of this anyway; what the
 * filter adds is that bugs in those parts of the kernel cannot be reached. Everything not in the table is allowed: real tools
 * must work.
 *
 * Which errno: EPERM where a process without privileges gets it on any system, so programs say something sensible; ENOSYS where
 * the kernel may well lack the call and programs then use an older one; EAFNOSUPPORT for sockets of a family that is not there.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum seccomp_when {
    SECCOMP_ALWAYS,
    SECCOMP_ANY_BIT,              /* argument `arg` has any bit of `value` */
    SECCOMP_IS,                   /* its lower 32 bits are `value`: the kernel looks at no others */
    SECCOMP_FROM,                 /* it is `value` or more */
    SECCOMP_IS_AND_NEXT_NOT_ZERO, /* lower 32 bits are `value`, and argument 2 is not 0 */
    SECCOMP_IS_AND_NEXT_ABOVE,    /* lower 32 bits are those of `value`, and argument 2 is more than its upper 32 bits */
    SECCOMP_MIXED,                /* its lower 32 bits are neither all 0 nor all 1 */
};

struct seccomp_rule {
    const char *name; /* of the system call */
    int nr;           /* for a libseccomp that has not heard of the name; -1: the rule is left out then */
    int error;        /* what the caller gets */
    enum seccomp_when when;
    unsigned arg;
    uint64_t value;
    const char *reason;
};

const struct seccomp_rule *seccomp_rules(size_t *ret_count);

/* A descriptor of a sealed memory file with the compiled filter, read position at its start. All other architectures'
 * calls (i386, x32) end the process. Returns the descriptor or a negative errno. */
int seccomp_open_filter(struct err *err);
