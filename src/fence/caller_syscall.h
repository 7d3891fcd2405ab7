/*
 * What a thread that waits for our answer is doing: the system call it is in.
 *
 * The kernel tells that only of who sleeps. Its request may reach us before it does, when something else took its CPU just
 * then, so it is asked again until it has lain down. It waits for us anyway, and for no longer than CALLER_SYSCALL_WAIT_NS: then
 * nobody learns what it wanted, and it gets its answer.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/clock.h"

#define CALLER_SYSCALL_WAIT_NS (50 * CLOCK_NS_PER_MS)

struct caller_syscall {
    long number; /* SYS_... */
    unsigned long args[6];
};

/* False: it is gone, it may not be looked at, or it never slept. */
bool caller_syscall_get(pid_t thread, struct caller_syscall *ret);
