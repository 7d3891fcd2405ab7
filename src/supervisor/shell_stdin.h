/*
 * Our end of a shell's standard input. Lines are written whole, and those that the pipe has no room for when they are said are kept
 * until it has: none is lost because a shell reads late.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "supervisor/reactor.h"

struct shell_stdin {
    int fd; /* owned, non-blocking; -1: closed */
    struct reactor *reactor;
    struct watch watch; /* idle while all is written */
    struct buf unwritten;
};

#define SHELL_STDIN_NONE ((struct shell_stdin){ .fd = -1 })

/* Makes a pipe, keeps the end to write to and gives the other. With `packets` whoever reads gets one line at a time, whatever it asks
 * for. */
int shell_stdin_open(struct shell_stdin *shell_stdin, struct reactor *reactor, bool packets, int *ret_read_fd);
void shell_stdin_close(struct shell_stdin *shell_stdin);

/* One line, with its newline, of at most PIPE_BUF bytes. -EPIPE: nobody reads any more. */
int shell_stdin_write_line(struct shell_stdin *shell_stdin, const char *line);

/* Has all that was said been read? */
bool shell_stdin_is_drained(const struct shell_stdin *shell_stdin);
