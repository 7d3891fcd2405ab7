/*
 * Ctrl-C and other signals that end a verb of the API, as a descriptor to poll. So a verb that runs a command ends the command in order, and does not
 * leave it behind.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Blocks the signals in this thread and those it starts later. Returns 0 or -errno. */
int interrupt_init(void);

/* Readable after such a signal. */
int interrupt_fd(void);

/* interrupt_window_fd() is readable after SIGWINCH or SIGCONT; interrupt_window_signal() returns which one, or 0. interrupt_init() blocks both for
 * all threads, because a thread that leaves them unblocked would consume them. */
int interrupt_window_fd(void);
int interrupt_window_signal(void);

/* Returns 128 + the number of the signal, as shells do, or 0 without one. */
int interrupt_exit_code(void);

/* Like read(2) and a write of all bytes, but return -ECANCELED if an interrupt arrives while they wait. */
ssize_t interrupt_read(int from_fd, void *bytes, size_t size);
int interrupt_write(int to_fd, const void *bytes, size_t len);
