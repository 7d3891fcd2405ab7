/*
 * The system call of a thread that waits for our answer.
 *
 * The kernel shows it only while the thread sleeps. A request may reach us before its thread sleeps, if something else took the
 * CPU just then, so we look again until it does. The thread waits for our answer meanwhile, at most CALLER_SYSCALL_WAIT_NS;
 * after that the call remains unknown and the thread gets its answer.
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

/* Returns false if the thread is gone, may not be inspected, or did not sleep. */
bool caller_syscall_get(pid_t thread, struct caller_syscall *ret);
