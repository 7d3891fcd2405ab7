/*
 * Our end of a shell's standard input. Lines are written whole, and those that the pipe has no room for when they are said are kept
 * until it has: none is lost because a shell reads late.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "supervisor/reactor.h"

struct script {
    int fd; /* owned, non-blocking; -1: closed */
    struct reactor *reactor;
    struct watch watch; /* idle while all is written */
    struct buf unsaid;
};

#define SCRIPT_NONE ((struct script){ .fd = -1 })

/* Makes a pipe, keeps the end to write to and gives the other. With `packets` whoever reads gets one line at a time, whatever it asks
 * for. */
int script_open(struct script *script, struct reactor *reactor, bool packets, int *ret_read_fd);
void script_close(struct script *script);

/* One line, with its newline, of at most PIPE_BUF bytes. -EPIPE: nobody reads any more. */
int script_say(struct script *script, const char *line);

/* Has all that was said been read? */
bool script_is_read(const struct script *script);
