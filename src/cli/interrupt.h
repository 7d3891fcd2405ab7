/*
 * Ctrl-C and its kin, for verbs that call the API: a descriptor to wait for beside whatever is waited for, so that a command that is under way
 * is ended in an orderly manner, and not left behind.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Blocks the signals, in this thread and those it will start. -errno. */
int interrupt_init(void);

/* Readable when one came. */
int interrupt_fd(void);

/* Readable when SIGWINCH or SIGCONT came, and which one that was; 0: none did. They are taken for all threads at once, or one that does not
 * care would swallow them. */
int interrupt_window_fd(void);
int interrupt_window_signal(void);

/* 128 + its number, as shells have it; 0: none came. */
int interrupt_exit_code(void);

/* read(2) and the writing of all of it, for streams that may keep us waiting: -ECANCELED when we are told to end meanwhile. */
ssize_t interrupt_read(int from_fd, void *bytes, size_t size);
int interrupt_write(int to_fd, const void *bytes, size_t len);
