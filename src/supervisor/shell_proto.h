/*
 * How a shell runs one command after another, such that no command can end, confuse or outlast the rest.
 *
 * The shell is interactive without a terminal. So it survives what would end a script: a syntax error, an unset variable,
 * SIGINT. It reads lines from a pipe as its standard input. These are always the same two lines, whatever the command:
 *
 *     \builtin . /proc/self/fd/8 8<&7 7<&- 6>&- </dev/null       run the command
 *     { \builtin echo 17 "$?" >&6; } 2>/dev/null                and report its status
 *
 * They are written so that aliases, functions, IFS and tracing that a command left behind make no difference.
 *
 * The command's text is in a memory file, descriptor 7, rewritten for each command. So its bytes need no quoting, and
 * unbalanced quotes or here-documents end with the file. The text is sourced, so it may `return`, and job messages stay off.
 * Its input is /dev/null, and neither our channel (6) nor the file is open while it runs. The number is the command's: if an
 * agent finds the channel and writes to it, that concerns only its own session.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct shell_proto {
    const char *name;        /* name of the program, without its directory */
    const char *const *args; /* the arguments after argv[0], NULL-terminated */
    const char *preamble;    /* one line, sent first */
    const char *run_line;    /* runs the content of the file */
    const char *echo;        /* the builtin, even if the name was redefined */
    const char *no_trace;    /* keeps the trace of our line off standard error, if the shell can do that */
    bool forgets_input;      /* drops what it has read when a command fails: each line must arrive separately */
};

/* Finds the protocol for a shell's path. An unknown name is treated as sh, that is, as any POSIX shell. */
const struct shell_proto *shell_proto_of(const char *shell_path);

/* Returns "/bin/bash", or "/bin/sh" if that does not exist. Looks at our own root, which shares /usr with the sandbox. */
const char *shell_proto_default_shell(void);

/* Adds the content of the file for a command, and the line that reports its end. A shell that is interrupted while it reads
 * forgets the part of the line it has read and continues with the rest, so it may be asked again. Every second attempt
 * closes a quotation that such a rest may have opened. */
void shell_proto_add_text(struct buf *out, const void *command, size_t len);
void shell_proto_add_report_line(const struct shell_proto *shell_proto, struct buf *out, unsigned long long number,
                                 unsigned attempt);
