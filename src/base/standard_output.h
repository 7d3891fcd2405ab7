/*
 * Standard output that remembers why it could not be written to: of stdio's own stream only whether it failed is known, when that is asked at the end.
 *
 * A reader that has left (`| head`) is no failure to tell of. Who writes on finds out by standard_output_flush(), and ends as other programs do that
 * SIGPIPE ends; the signal itself is ignored, because it would also end us for a server that went away.
 */
#pragma once

#include <stdbool.h>

#define STANDARD_OUTPUT_CLOSED 141 /* the exit code: 128 + SIGPIPE */

/* Once, before anything is printed. From then on `stdout` is a stream without a descriptor: STDOUT_FILENO is it. */
void standard_output_begin(void);

/* What was printed is written. 0, or the negative errno with which a write failed first, now or earlier. */
int standard_output_flush(void);

/* For who writes to the descriptor itself: it failed with this negative errno. Returns it. */
int standard_output_failed(int r);

/* Whether somebody may still read it. A reader that takes what it got and leaves does so within a moment: up to `wait_ms` are waited for it, if
 * standard output is a pipe. */
bool standard_output_has_reader(int wait_ms);

/* At the end: `code`, or STANDARD_OUTPUT_CLOSED without a word, or `failed_code` with the reason on standard error. */
int standard_output_finish(const char *program, int code, int failed_code);
