/*
 * Prints names and texts that come from files or sandboxes, so that none of their bytes reaches a terminal as a control character.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

/* Returns a file name as JSON. JSON cannot represent bytes that are not UTF-8, so they are escaped. */
json_t *output_json_name(const char *name);

/* Prints one JSON value and a newline. Takes the reference. */
void output_json(json_t *value);

/* Prints a line "name: value". */
void output_field(const char *name, const json_t *value);

/* Prints text, with bytes escaped that could mislead a terminal. */
void output_escaped(FILE *out, const char *text);

/* Sets `err` to "<what>: <strerror>" after a write to standard output failed with the negative errno `r`. Returns `r`. */
int output_refused(int r, const char *what, struct err *err);

#define OUTPUT_CLOSED                                                                                                          \
    "output closed" /* the reason if the reader closed its end; servers cannot send it (client_keep_reason()) */

/* Prints "agentfense policy: <text>" on standard error, but nothing if the reader closed its end. Returns EXIT_USAGE for invalid arguments,
 * otherwise EXIT_OURS. */
int output_error(const char *verb, const struct err *err);

/* From now on, errors of `verb` begin with "<program> <name>", the words that the user typed. Borrows all strings for good. */
void output_call_verb(const char *verb, const char *program, const char *name);

/* Returns whether to colour output: on a terminal unless NO_COLOR is set, or anywhere if CLICOLOR_FORCE is set. */
bool output_is_coloured(FILE *out);
