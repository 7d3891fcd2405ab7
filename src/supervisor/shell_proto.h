/*
 * How a shell is made to run one command after the other without any of them being able to end, confuse or outwait the rest.
 *
 * The shell is interactive without a terminal. That is what makes it survive what would end a script: a syntax error, an unset
 * variable, SIGINT. It reads lines from a pipe of ours as its standard input; these lines are always the same two, whatever
 * the command:
 *
 *     \builtin . /proc/self/fd/8 8<&7 7<&- 6>&- </dev/null       run the command
 *     { \builtin echo 17 "$?" >&6; } 2>/dev/null                and say so
 *
 * They are written so that aliases, functions, IFS and tracing that a command left behind make no difference.
 *
 * The command's text itself is in a memory file, descriptor 7, rewritten for each, so no quoting stands between its bytes and
 * the shell, and unbalanced quotes or here-documents end with the file. Being sourced, it may `return`, and job messages stay
 * off. It has /dev/null as its input, and neither our channel (6) nor the file is open while it runs. The number is that of the
 * command: what an agent writes to the channel itself, having found it, concerns only its own session.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct shell_proto {
    const char *name;        /* of the program, without its directory */
    const char *const *args; /* what follows argv[0], ended by NULL */
    const char *preamble;    /* one line, given first */
    const char *run_line;    /* runs what the file holds */
    const char *echo;        /* the builtin, whatever the name means by now */
    const char *no_trace;    /* keeps tracing of our line off standard error, where the shell has a way */
    bool forgets_input;      /* drops what it has read when a command fails: each line must reach it by itself */
};

/* That of a shell by its path; sh's when the name is unknown to us: any POSIX shell. */
const struct shell_proto *shell_proto_of(const char *shell_path);

/* The first of bash and sh that there is: "/bin/bash", "/bin/sh". As seen from here: /usr is the host's. */
const char *shell_proto_default_shell(void);

/* What the file holds for a command, and the line that reports its end. A shell that is interrupted while it reads forgets what
 * it has read of a line, and goes on with the rest: it may be asked again. Every second attempt ends a quotation that began so. */
void shell_proto_add_text(struct buf *out, const void *command, size_t len);
void shell_proto_add_report_line(const struct shell_proto *shell_proto, struct buf *out, unsigned long long number,
                                 unsigned attempt);
