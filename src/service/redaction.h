/*
 * Takes secrets out of texts that are kept: the commands in events, which go to the log and to the database.
 *
 * Replaced is the value behind the name of a secret, as commands have them (--token X, PASSWORD=x, "api_key": "x", Authorization: Bearer x),
 * the password of a URL, words that look like well-known tokens, what stands behind names that are configured, and what configured patterns
 * match. It is a help, no promise: a secret that nothing points at is kept like any other word.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/cleanup.h"
#include "base/err.h"

#define REDACTION_MARK "[redacted]"

struct redaction;

/* `names`: with commas between, of options, variables, keys and headers; case and '-' or '_' do not matter. `patterns_path`: a file of extended
 * regular expressions, one in a line, '#' before a comment; replaced is what the first group matches, or all without a group. Either may be "". */
int redaction_new(const char *names, const char *patterns_path, struct redaction **ret, struct err *err);
void redaction_free(struct redaction *redaction);
DEFINE_AUTOPTR(redaction, redaction_free);

/* New; NULL when there is nothing to replace. */
char *redaction_text(const struct redaction *redaction, const char *text);

/* Every text in an object or a list, in place. */
void redaction_json(const struct redaction *redaction, json_t *value);
