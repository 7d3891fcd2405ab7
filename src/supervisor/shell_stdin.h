/*
 * Our end of a shell's standard input. Lines are written whole; a full pipe queues them, so none is lost if the shell reads
 * late.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "supervisor/reactor.h"

struct shell_stdin {
    int fd; /* owned, non-blocking; -1: closed */
    struct reactor *reactor;
    struct watch watch; /* idle while nothing is queued */
    struct buf unwritten;
};

#define SHELL_STDIN_NONE ((struct shell_stdin){ .fd = -1 })

/* Makes a pipe, keeps the write end and returns the read end. With `packets` each read returns at most one line. */
int shell_stdin_open(struct shell_stdin *shell_stdin, struct reactor *reactor, bool packets, int *ret_read_fd);
void shell_stdin_close(struct shell_stdin *shell_stdin);

/* Writes one line of at most PIPE_BUF bytes, including its newline. -EPIPE if nobody reads any more. */
int shell_stdin_write_line(struct shell_stdin *shell_stdin, const char *line);

/* Tells whether the shell has read everything. */
bool shell_stdin_is_drained(const struct shell_stdin *shell_stdin);
