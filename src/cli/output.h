/*
 * What verbs print. Names and texts that come from files or sandboxes go through here, so that no byte of theirs reaches a
 * terminal as a control character.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

/* A file name as JSON. What is no UTF-8 is escaped as text; JSON cannot carry it as it is. */
json_t *output_json_name(const char *name);

/* Prints one JSON value and a newline; takes the reference. */
void output_json(json_t *value);

/* A line "name: value". */
void output_field(const char *name, const json_t *value);

/* Prints text with whatever could mislead a terminal escaped. */
void output_escaped(FILE *out, const char *text);

/* Standard output could not be written to, with the negative errno `r`: "<what>: <strerror>". Returns `r`. */
int output_refused(int r, const char *what, struct err *err);

#define OUTPUT_CLOSED                                                                                                          \
    "output closed" /* the reason, if it is because nobody reads it any more; no server can send it (client_keep_reason()) */

/* "agentfense policy: <text>" on standard error. Returns EXIT_OURS, or EXIT_USAGE for refused input. That nobody reads any more is not told. */
int output_error(const char *verb, const struct err *err);

/* From now on errors of this verb begin with "<program> <name>" instead: the words that were typed. All borrowed for good. */
void output_call_verb(const char *verb, const char *program, const char *name);

/* Colours only for people: on a terminal, unless NO_COLOR is set; or where CLICOLOR_FORCE is. */
bool output_is_coloured(FILE *out);
