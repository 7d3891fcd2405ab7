/*
 * Standard output that remembers why a write failed. stdio's own stream remembers only that one failed.
 *
 * A reader that closed the pipe (`| head`) is not an error to report. Programs notice it in standard_output_flush() and then
 * exit with the status of a program that SIGPIPE killed. The signal itself is ignored, because it would also kill us when a
 * server closes its connection.
 */
#pragma once

#include <stdbool.h>

#define STANDARD_OUTPUT_CLOSED 141 /* the exit code 128 + SIGPIPE */

/* Call it once, before anything is printed. From then on `stdout` has no descriptor; use STDOUT_FILENO. */
void standard_output_begin(void);

/* Writes everything that was printed. Returns 0, or the negative errno of the first write that failed, now or earlier. */
int standard_output_flush(void);

/* Records the negative errno of a write to the descriptor itself. Returns it. */
int standard_output_failed(int r);

/* Returns true if the output may still be read. A reader that takes the output and exits does so within a moment, so this waits
 * up to `wait_ms` for it if standard output is a pipe. */
bool standard_output_has_reader(int wait_ms);

/* Flushes at the end of the program. Returns `code`; or STANDARD_OUTPUT_CLOSED, silently; or `failed_code` after printing the
 * reason to standard error. */
int standard_output_finish(const char *program, int code, int failed_code);
