/*
 * The system calls that a sandbox cannot make: a filter for bwrap's --seccomp, compiled at build time (seccomp_compile.c) from
 * one table that gives a reason for each row.
 *
 * It is the second line of defence. Without capabilities and in its own namespaces a sandbox can do little of this anyway; the
 * filter keeps it from reaching bugs in those parts of the kernel. Everything else is allowed, because real tools must work.
 *
 * The errno is EPERM where an unprivileged process gets it on any system, so that programs print something sensible; ENOSYS
 * where the kernel may lack the call and programs then use an older one; EAFNOSUPPORT for socket families that do not exist.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum seccomp_when {
    SECCOMP_ALWAYS,
    SECCOMP_ANY_BIT,              /* argument `arg` has any bit of `value` */
    SECCOMP_IS,                   /* its lower 32 bits are `value`: the kernel ignores the others */
    SECCOMP_FROM,                 /* it is at least `value` */
    SECCOMP_IS_AND_NEXT_NOT_ZERO, /* lower 32 bits are `value`, and argument 2 is not 0 */
    SECCOMP_IS_AND_NEXT_ABOVE,    /* lower 32 bits are those of `value`, and argument 2 exceeds its upper 32 bits */
    SECCOMP_MIXED,                /* its lower 32 bits are neither all 0 nor all 1 */
};

struct seccomp_rule {
    const char *name; /* of the system call */
    int nr;           /* for a libseccomp that does not know the name; -1: omit the rule */
    int error;        /* errno for the caller */
    enum seccomp_when when;
    unsigned arg;
    uint64_t value;
    const char *reason;
};

const struct seccomp_rule *seccomp_rules(size_t *ret_count);

/* A test of an argument, as filters have them. */
struct seccomp_test {
    unsigned arg;
    enum { SECCOMP_MASKED_EQUAL, SECCOMP_NOT_EQUAL, SECCOMP_GREATER, SECCOMP_GREATER_OR_EQUAL } op;
    uint64_t value, mask;
};

/* Called for each combination of up to two tests that must all hold. A negative result ends the expansion. */
typedef int (*seccomp_tests_fn)(const struct seccomp_rule *rule, const struct seccomp_test *tests, unsigned count,
                                void *cookie);

/* Expresses a rule by tests. A filter cannot test for any of several bits, and may test an argument only once. */
int seccomp_rule_expand(const struct seccomp_rule *rule, seccomp_tests_fn fn, void *cookie);

/* Returns a sealed memory file with the compiled filter, positioned at its start, or a negative errno. Calls of other
 * architectures (i386, x32) kill the process. */
int seccomp_open_filter(struct err *err);
